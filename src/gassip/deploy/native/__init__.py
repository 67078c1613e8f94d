"""A run without Python: a C file, a WebAssembly module, a page; core.c computes for all."""
