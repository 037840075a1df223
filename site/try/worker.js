// The networks, on a thread of their own: the page never waits for them. A large network runs on the GPU where the browser
// has WebGPU, and where that gives the numbers of the processor; all else on the processor.

import * as wasm from "./ort.wasm.bundle.min.mjs";

const TOLERANCE = 1e-4; // of reflectance

settle(wasm);
const sessions = new Map();

function settle(ort) {
  // Threads share memory, which a browser allows only where the server sends headers that isolate the page.
  ort.env.wasm.numThreads = self.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency) : 1;
  ort.env.wasm.wasmPaths = "./";
}

function session(file, onGpu) {
  if (!sessions.has(file)) sessions.set(file, onGpu ? quickest(file) : open(wasm, file, "wasm"));
  return sessions.get(file);
}

async function open(ort, file, provider) {
  return { ort, provider, network: await ort.InferenceSession.create(file, { executionProviders: [provider] }) };
}

/** The network on the GPU, if that gives what the processor does for a little photo. */
async function quickest(file) {
  const sure = await open(wasm, file, "wasm");
  try {
    const adapter = await navigator.gpu?.requestAdapter();
    if (!adapter || adapter.info?.isFallbackAdapter) return sure; // one that only imitates a GPU is slow
    const webgpu = await import("./ort.webgpu.bundle.min.mjs");
    settle(webgpu);
    const quick = await open(webgpu, file.replace(".onnx", ".gpu.onnx"), "webgpu");
    const photo = Float32Array.from({ length: 3 * 32 * 32 }, (_, at) => ((at * 7919) % 997) / 997);
    const [expected, got] = [await compute(sure, photo, 32, 32), await compute(quick, photo, 32, 32)];
    if (expected.every((value, at) => Math.abs(value - got[at]) < TOLERANCE)) return quick;
  } catch (error) {
    console.warn(`No WebGPU: ${error.message ?? error}`);
  }
  return sure;
}

async function compute({ ort, network }, values, height, width) {
  const photo = new ort.Tensor("float32", values, [1, 3, height, width]);
  const results = await network.run({ [network.inputNames[0]]: photo });
  return results[network.outputNames[0]].data;
}

async function run({ file, values, height, width, onGpu }) {
  const opened = await session(file, onGpu).catch((error) => {
    sessions.delete(file);
    throw new Error(`The network did not load (${String(error.message ?? error).slice(0, 80)}). Check the connection, and reload the page.`);
  });
  const isOnGpu = opened.provider === "webgpu";
  try {
    return { values: await compute(opened, values, height, width), onGpu: isOnGpu };
  } catch (error) {
    if (!isOnGpu) throw error;
    sessions.set(file, open(wasm, file, "wasm")); // the memory of the GPU did not suffice
    return run({ file, values, height, width });
  }
}

onmessage = async ({ data }) => {
  try {
    const { values, onGpu } = await run(data);
    postMessage({ id: data.id, values, onGpu }, [values.buffer]);
  } catch (error) {
    postMessage({ id: data.id, error: String(error.message ?? error) });
  }
};
