// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/descriptor.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "google/protobuf/descriptor.pb-c.h"

typedef Google__Protobuf__FileDescriptorSet set_proto;
typedef Google__Protobuf__ServiceDescriptorProto service_proto;
typedef Google__Protobuf__MethodDescriptorProto method_proto;

static void set_cleanup(set_proto **set)
{
	google__protobuf__file_descriptor_set__free_unpacked(*set, NULL);
}

static set_proto *set_parse(const void *bytes, size_t size, struct berth_error *err)
{
	set_proto *set = google__protobuf__file_descriptor_set__unpack(NULL, size, bytes ? bytes : "");
	if (!set) {
		berth_fail(err, BERTH_ERROR_CORRUPT,
			"the descriptor set (%zu bytes) is no google.protobuf.FileDescriptorSet", size);
	}
	return set;
}

// Whether `full` is `name` in `package`.
static bool is_named(const char *full, const char *package, const char *name)
{
	if (!name) {
		return false;
	}
	size_t length = package ? strlen(package) : 0;
	if (length == 0) {
		return strcmp(full, name) == 0;
	}
	return strncmp(full, package, length) == 0 && full[length] == '.' && strcmp(full + length + 1, name) == 0;
}

static const service_proto *find_service(const set_proto *set, const char *name, struct berth_error *err)
{
	for (size_t i = 0; i < set->n_file; i++) {
		for (size_t j = 0; j < set->file[i]->n_service; j++) {
			if (is_named(name, set->file[i]->package, set->file[i]->service[j]->name)) {
				return set->file[i]->service[j];
			}
		}
	}
	berth_fail(err, BERTH_ERROR_NOT_FOUND, "the descriptor set has no service %s; embed the set of its .proto file",
		name);
	return NULL;
}

static const method_proto *find_method(
	const service_proto *service, const char *service_name, const char *name, struct berth_error *err)
{
	for (size_t i = 0; i < service->n_method; i++) {
		if (service->method[i]->name && strcmp(service->method[i]->name, name) == 0) {
			return service->method[i];
		}
	}
	berth_fail(err, BERTH_ERROR_NOT_FOUND, "the descriptor set has no method %s.%s", service_name, name);
	return NULL;
}

static enum berth_rpc_kind kind_of(const method_proto *method)
{
	bool client = method->has_client_streaming && method->client_streaming;
	bool server = method->has_server_streaming && method->server_streaming;
	if (client) {
		return server ? BERTH_RPC_BIDI : BERTH_RPC_CLIENT_STREAM;
	}
	return server ? BERTH_RPC_SERVER_STREAM : BERTH_RPC_UNARY;
}

bool berth_rpc_method_kind(const void *descriptor_set, size_t size, const char *service, const char *method,
	enum berth_rpc_kind *kind, struct berth_error *err)
{
	BERTH_AUTO(set_cleanup) set_proto *set = set_parse(descriptor_set, size, err);
	const service_proto *found = set ? find_service(set, service, err) : NULL;
	const method_proto *described = found ? find_method(found, service, method, err) : NULL;
	if (!described) {
		return false;
	}
	*kind = kind_of(described);
	return true;
}

bool berth_rpc_set_check(const void *bytes, size_t size, struct berth_error *err)
{
	BERTH_AUTO(set_cleanup) set_proto *set = set_parse(bytes, size, err);
	return set != NULL;
}

// In a set, types that are known by their full name start with a dot.
static bool check_type(const char *service, const char *method, const char *side, const char *in_set,
	const ProtobufCMessageDescriptor *linked, struct berth_error *err)
{
	const char *name = in_set ? in_set : "";
	if (*name == '.' && strcmp(name + 1, linked->name) == 0) {
		return true;
	}
	return berth_fail(err, BERTH_ERROR_CONFLICT,
		"%s.%s: the program's %s type is %s, the descriptor set's is %s; build both from one .proto file",
		service, method, side, linked->name, name);
}

static bool load_method(const service_proto *described, const ProtobufCServiceDescriptor *service,
	const ProtobufCMethodDescriptor *linked, struct berth_rpc_method *method, struct berth_error *err)
{
	const method_proto *found = find_method(described, service->name, linked->name, err);
	if (!found || !check_type(service->name, linked->name, "request", found->input_type, linked->input, err) ||
		!check_type(service->name, linked->name, "response", found->output_type, linked->output, err)) {
		return false;
	}
	*method = (struct berth_rpc_method){
		.input = linked->input,
		.output = linked->output,
		.kind = kind_of(found),
		.path = berth_format("/%s/%s", service->name, linked->name),
	};
	return true;
}

bool berth_rpc_methods_load(const void *bytes, size_t size, const ProtobufCServiceDescriptor *service,
	struct berth_rpc_method *methods, struct berth_error *err)
{
	BERTH_AUTO(set_cleanup) set_proto *set = set_parse(bytes, size, err);
	const service_proto *described = set ? find_service(set, service->name, err) : NULL;
	if (!described) {
		return false;
	}
	if (described->n_method != service->n_methods) {
		return berth_fail(err, BERTH_ERROR_CONFLICT,
			"%s has %u methods in the program and %zu in the descriptor set; build both from one .proto "
			"file",
			service->name, service->n_methods, described->n_method);
	}
	for (unsigned i = 0; i < service->n_methods; i++) {
		if (!load_method(described, service, &service->methods[i], &methods[i], err)) {
			berth_rpc_methods_clear(methods, i);
			return false;
		}
	}
	return true;
}

void berth_rpc_methods_clear(struct berth_rpc_method *methods, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(methods[i].path);
	}
}
