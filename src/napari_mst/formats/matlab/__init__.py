"""MAT-files, opened by a process of their own."""
