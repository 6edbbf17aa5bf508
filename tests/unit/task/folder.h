// SPDX-License-Identifier: Apache-2.0
// Task folders made for one test.
#pragma once

#include <stddef.h>

// Writes `text` to `folder`/`name`, making the folders between.
void test_write(const char *folder, const char *name, const char *text);
// A minimal valid task whose task.toml is `toml`, in a fresh folder named `name`; the caller frees the path.
char *test_task(const char *name, const char *toml);
