// SPDX-License-Identifier: Apache-2.0
// How glibc's malloc takes memory from the kernel.
//
// A page costs an exception when it is first touched, on a guest whose host keeps page tables of its own 20 µs: a
// program that starts with megabytes of heap waits for them longer than for its disk. Large pages make one of 512.
#pragma once

#include <stddef.h>

// Once, before other threads: up to `kept` bytes that were freed stay the process's, and what is larger than
// `mapped_alone` is mapped by itself and goes back at once.
void berth_heap_setup(size_t kept, size_t mapped_alone);
// What this thread's arena allocates next, up to `size` bytes (whole large pages), comes from large pages where the
// kernel gives them. For a thread's first lines, after berth_heap_setup: without that, nothing. It takes up to one
// large page of address space besides, and no memory.
void berth_heap_large_pages(size_t size);
