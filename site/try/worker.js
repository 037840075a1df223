// The networks, on a thread of their own: the page never waits for them.

import * as ort from "./ort.wasm.bundle.min.mjs";

ort.env.wasm.numThreads = 1; // more need headers that few servers send
ort.env.wasm.wasmPaths = "./";

const sessions = new Map();

function session(file) {
  if (!sessions.has(file)) sessions.set(file, ort.InferenceSession.create(file));
  return sessions.get(file);
}

async function run({ file, values, height, width }) {
  const network = await session(file);
  const photo = new ort.Tensor("float32", values, [1, 3, height, width]);
  const results = await network.run({ [network.inputNames[0]]: photo });
  return results[network.outputNames[0]].data;
}

onmessage = async ({ data }) => {
  try {
    const values = await run(data);
    postMessage({ id: data.id, values }, [values.buffer]);
  } catch (error) {
    postMessage({ id: data.id, error: String(error.message ?? error) });
  }
};
