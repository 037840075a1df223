"""The dock "Metamers": spectra that a photo cannot tell apart, for teachers and the curious."""
