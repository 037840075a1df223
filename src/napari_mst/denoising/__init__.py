"""Non-local means, the attention between pixels that came first, and the noise of sensors.

`non_local_means`  the filter for any image, as people call it, and the weights of one pixel
`as_attention`     the same as self-attention: queries, keys, softmax
`streaming`        any image, a few rows at a time, on all cores
`numpy_kernel`     the sums over a block of pixels in NumPy; `kernel` compiles them with numba
`sensor_noise`     noise that grows with the light, measured in a photo
`photo_denoising`  photos as a person looks at their weights
`nl_bayes`         non-local Bayes, which denoises photos before the network
`numpy_bayes`      the estimates of a tile in NumPy; `kernel` compiles them with numba

It stands below `reconstruction`, which asks it before the network sees a photo, and it needs no
torch.
"""
