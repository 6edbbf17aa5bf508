# SPDX-License-Identifier: Apache-2.0
"""protobuf-c sources, headers and descriptor sets from .proto files, by protoc-c."""

def protoc_c(name, protos, local = True, path = None, deps = [], visibility = ["//visibility:public"]):
    """A cc_library NAME with the generated code of `protos`.

    Args:
      name: the library.
      protos: names as other files import them, such as "berth/v1/job.proto".
      local: whether they lie below this package; if not, below `path` on the build machine.
      path: the folder of files that the system brings.
      deps: libraries of the files that these import.
      visibility: as of cc_library.
    """
    sources = [proto.replace(".proto", ".pb-c.c") for proto in protos]
    headers = [proto.replace(".proto", ".pb-c.h") for proto in protos]
    root = native.package_name() if local else path
    native.genrule(
        name = name + "_gen",
        srcs = native.glob(["**/*.proto"]) if local else [],
        outs = sources + headers,
        cmd = "protoc-c --c_out=$(RULEDIR) --proto_path=%s --proto_path=/usr/include %s" % (root, " ".join(protos)),
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        # Generated code is not ours to mend.
        copts = ["-w"],
        includes = ["."],
        deps = deps + ["//deploy/bazel/system:protobuf_c"],
        visibility = visibility,
    )

def descriptor_set(name, symbol, protos, path = None, visibility = ["//visibility:public"]):
    """A cc_library NAME with the FileDescriptorSet of `protos` and their imports as SYMBOL and SYMBOL_size.

    The set itself is the file NAME.binpb.

    Args:
      name: the library; its header is NAME.h.
      symbol: the C name.
      protos: as in protoc_c.
      path: as in protoc_c, for files that do not lie below this package.
      visibility: as of cc_library.
    """
    root = path or native.package_name()
    native.genrule(
        name = name + "_set",
        srcs = [] if path else native.glob(["**/*.proto"]),
        outs = [name + ".binpb"],
        cmd = ("protoc-c --include_imports --descriptor_set_out=$@ --proto_path=%s --proto_path=/usr/include %s" %
               (root, " ".join(protos))),
        visibility = visibility,
    )
    native.genrule(
        name = name + "_embed",
        srcs = [name + ".binpb"],
        outs = [name + ".c", name + ".h"],
        cmd = """
{ echo '#include <stddef.h>'; echo 'extern const unsigned char %s[];'; echo 'extern const size_t %s_size;'; } > $(RULEDIR)/%s.h
{ echo '#include <stddef.h>'; echo 'const unsigned char %s[] = {'; od -An -v -tu1 $< | sed 's/  *\\([0-9]\\)/\\1/; s/  *\\([0-9]\\)/,\\1/g; s/$$/,/';
  echo '};'; echo 'const size_t %s_size = sizeof %s;'; } > $(RULEDIR)/%s.c
""" % (symbol, symbol, name, symbol, symbol, symbol, name),
    )
    native.cc_library(
        name = name,
        srcs = [name + ".c"],
        hdrs = [name + ".h"],
        copts = ["-w"],
        includes = ["."],
        visibility = visibility,
    )
