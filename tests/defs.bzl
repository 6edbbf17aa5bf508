# SPDX-License-Identifier: Apache-2.0
"""How a test, a Docker test and a fuzz target are declared."""

def berth_test(name, srcs, deps, data = [], **kwargs):
    """One cmocka group: runs anywhere, needs no service."""
    native.cc_test(
        name = name,
        srcs = srcs,
        data = data,
        deps = deps + ["//deploy/bazel/system:cmocka", "//tests/support"],
        size = kwargs.pop("size", "small"),
        **kwargs
    )

def berth_docker_test(name, srcs, deps, data = [], tags = [], **kwargs):
    """A cmocka group that talks to the Engine that tests/run.sh started (BERTH_TEST_DOCKER_HOST)."""
    native.cc_test(
        name = name,
        srcs = srcs,
        data = data,
        deps = deps + ["//deploy/bazel/system:cmocka", "//tests/support"],
        size = kwargs.pop("size", "medium"),
        tags = tags + ["docker", "external", "local"],
        **kwargs
    )

def berth_fuzz(name, srcs, deps, corpus = []):
    """A libFuzzer target: built with --config=fuzz, fed with `corpus`; tests/run.sh gives each its share of time."""
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = srcs,
        data = corpus,
        tags = ["fuzz", "manual"],
        deps = deps,
    )
