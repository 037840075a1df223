"""One cluster of two workers on this computer for the tests of a module, and its certificates."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from napari_mst.batch.execution import connected


@contextmanager
def cluster_of_two() -> Iterator[Any]:
    """The client of two workers; dask's configuration has the certificates for other clients."""
    config = pytest.importorskip("dask.config")
    pytest.importorskip("distributed")
    before = set(os.environ)
    with connected(2, "") as (client, _):
        assert client is not None
        security = client.security
        tls = {
            "distributed.comm.tls.ca-file": security.tls_ca_file,
            "distributed.comm.tls.client.cert": security.tls_client_cert,
            "distributed.comm.tls.client.key": security.tls_client_key,
        }
        # xarray of the same program would compute on the workers, and fail when they are gone.
        assert config.get("scheduler", None) is None
        with config.set(tls):
            yield client
    assert set(os.environ) <= before  # which other processes would inherit
