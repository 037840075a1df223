"""Vector kernels of the network on a CPU, compiled by numba for the processor at hand.

A row of features is stored as planes of vectors, [channels / LANES][pixels][LANES], with zeros for
channels that only fill up a vector. So what a loop reads lies side by side, and no address is a
multiple of a large power of two. A block goes through an image row by row and keeps the few rows
that the next convolution needs, so nothing but its input and its output leaves the cache.

    processor    the vector unit, and how kernels fill its registers: as is fastest by `peak`
    emitter      vector instructions of LLVM, written out
    caching      what is compiled stays on disk
    checking     kernels that are wrong, or that no compiler makes, are not used
    rows         features in memory, and rows of them as planes of vectors
    products     convolutions over all channels; filters: over each channel alone
    block, convolution, upsampling, gram    the kernels that `engine.forms.kernel_forms` calls
    spectra             the pixelwise network, for `engine.forms.spectra_forms`
    colours, light      for `reconstruction.consistency`: spectra moved to the colours of a photo

All numbers in the records are bytes, addresses and counts. Letters: C channels, h, w sides of what
is computed.
"""
