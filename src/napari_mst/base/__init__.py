"""What every room stands on: errors, progress, memory, arrays, extensions, saving and sandboxes."""
