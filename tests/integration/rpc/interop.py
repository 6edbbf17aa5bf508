# SPDX-License-Identifier: Apache-2.0
"""grpcio as a client of our server. Arguments: the server, the Echo descriptor set, the health set."""
import contextlib
import subprocess
import sys
import tempfile
import threading
import traceback

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

WAIT_S = 30


def load(*paths):
    pool = descriptor_pool.DescriptorPool()
    for path in paths:
        with open(path, "rb") as file:
            for proto in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
                pool.Add(proto)
    factory = message_factory.MessageFactory(pool)
    return lambda name: factory.GetPrototype(pool.FindMessageTypeByName(name))


def status_types():
    """google.rpc.Status and ErrorInfo, which Debian's packages lack."""
    file = descriptor_pb2.FileDescriptorProto(name="status.proto", package="google.rpc", syntax="proto3",
                                              dependency=["google/protobuf/any.proto"])
    kinds = descriptor_pb2.FieldDescriptorProto
    status = file.message_type.add(name="Status")
    status.field.add(name="code", number=1, type=kinds.TYPE_INT32, label=kinds.LABEL_OPTIONAL)
    status.field.add(name="message", number=2, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    status.field.add(name="details", number=3, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_REPEATED,
                     type_name=".google.protobuf.Any")
    info = file.message_type.add(name="ErrorInfo")
    info.field.add(name="reason", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    info.field.add(name="domain", number=2, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    from google.protobuf import any_pb2
    pool.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return [factory.GetPrototype(pool.FindMessageTypeByName("google.rpc." + name)) for name in ("Status", "ErrorInfo")]


class Client:
    def __init__(self, server, echo_set, health_set):
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen([server, self.folder.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.plain, self.tls = self.process.stdout.readline().split()
        message = load(echo_set, health_set)
        self.Text, self.Number = message("berth.test.v1.Text"), message("berth.test.v1.Number")
        self.HealthRequest = message("grpc.health.v1.HealthCheckRequest")
        self.HealthResponse = message("grpc.health.v1.HealthCheckResponse")
        self.Status, self.ErrorInfo = status_types()
        self.channel = grpc.insecure_channel("127.0.0.1:" + self.plain)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def method(self, kind, path, response, channel=None):
        return getattr(channel or self.channel, kind)(
            path, request_serializer=lambda message: message.SerializeToString(), response_deserializer=response.FromString)

    def say(self, text, channel=None, **options):
        options.setdefault("timeout", WAIT_S)
        return self.method("unary_unary", "/berth.test.v1.Echo/Say", self.Text, channel)(self.Text(text=text), **options)

    def chat(self, texts, **options):
        return self.method("stream_stream", "/berth.test.v1.Echo/Chat", self.Text)(texts, timeout=WAIT_S, **options)

    def secure(self, name):
        def read(part):
            with open(f"{self.folder.name}/{part}", "rb") as file:
                return file.read()
        parts = dict(root_certificates=read("ca.pem"))
        if name:
            parts.update(private_key=read(name + ".key"), certificate_chain=read(name + ".pem"))
        return grpc.secure_channel("127.0.0.1:" + self.tls, grpc.ssl_channel_credentials(**parts))

    def stop(self):
        self.channel.close()
        self.process.stdin.close()
        status = self.process.wait(WAIT_S)
        self.folder.cleanup()
        return status


def fails(code, call):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, (error.code(), error.details())
        return error
    raise AssertionError(f"wanted {code}, got an answer")


def details_of(client, error):
    trailers = dict(error.trailing_metadata())
    status = client.Status.FromString(trailers["grpc-status-details-bin"])
    info = client.ErrorInfo.FromString(status.details[0].value)
    assert status.details[0].type_url == "type.googleapis.com/google.rpc.ErrorInfo"
    return status, info


def unary(client):
    assert client.say("hello").text == "hello"
    assert client.say("").text == ""
    assert len(client.say("bytes:3000000").payload) == 3000000


def unary_many(client):
    calls = [client.method("unary_unary", "/berth.test.v1.Echo/Say", client.Text).future(client.Text(text=str(i)),
                                                                                       timeout=WAIT_S)
             for i in range(300)]
    assert [call.result().text for call in calls] == [str(i) for i in range(300)]


def client_stream(client):
    join = client.method("stream_unary", "/berth.test.v1.Echo/Join", client.Text)
    assert join(iter([client.Text(text=c) for c in "berth"]), timeout=WAIT_S).text == "berth"
    assert join(iter([]), timeout=WAIT_S).text == ""


def server_stream(client):
    count = client.method("unary_stream", "/berth.test.v1.Echo/Count", client.Number)
    assert [n.value for n in count(client.Number(value=1000, padding_size=100), timeout=WAIT_S)] == list(range(1000))


def bidi(client):
    texts = [str(i) for i in range(200)]
    assert [t.text for t in client.chat(iter([client.Text(text=t) for t in texts]))] == texts


def bidi_turns(client):
    answered = threading.Semaphore(1)

    def ask():
        for i in range(20):
            assert answered.acquire(timeout=WAIT_S)
            yield client.Text(text=str(i))
    for i, answer in enumerate(client.chat(ask())):
        assert answer.text == str(i)
        answered.release()


def headers(client):
    assert client.say("header:x-test", metadata=[("x-test", "seen")]).text == "seen"
    assert "python" in client.say("header:user-agent").text


def deadline(client):
    fails(grpc.StatusCode.DEADLINE_EXCEEDED, lambda: client.say("hold", timeout=0.2))
    assert client.ask("seen Say cancelled") == "ok"
    assert 0 < int(client.say("left", timeout=20).text) <= 22000


def cancel(client):
    held = threading.Event()

    def ask():
        yield client.Text(text="first")
        held.wait(WAIT_S)
    call = client.chat(ask())
    assert next(call).text == "first"
    call.cancel()
    fails(grpc.StatusCode.CANCELLED, lambda: next(call))
    held.set()
    assert client.ask("seen Chat cancelled") == "ok"


def status_details(client):
    for name, code in [("INVALID", grpc.StatusCode.INVALID_ARGUMENT), ("NOT_FOUND", grpc.StatusCode.NOT_FOUND),
                       ("BUDGET", grpc.StatusCode.RESOURCE_EXHAUSTED), ("FENCED", grpc.StatusCode.FAILED_PRECONDITION),
                       ("NOT_SERVING", grpc.StatusCode.UNAVAILABLE), ("CORRUPT", grpc.StatusCode.DATA_LOSS)]:
        error = fails(code, lambda: client.say("fail:" + name))
        status, info = details_of(client, error)
        assert error.details() == "asked for " + name == status.message
        assert status.code == code.value[0]
        assert (info.reason, info.domain) == (name, "berth")
    call = client.chat(iter([client.Text(text="one"), client.Text(text="fail:CONFLICT")]))
    assert next(call).text == "one"
    assert details_of(client, fails(grpc.StatusCode.ALREADY_EXISTS, lambda: next(call)))[1].reason == "CONFLICT"


def unknown_methods(client):
    for path in "/berth.test.v1.Echo/Nothing", "/nobody/Knows", "/berth.test.v1.Echo/Unserved":
        fails(grpc.StatusCode.UNIMPLEMENTED,
              lambda: client.method("unary_unary", path, client.Text)(client.Text(), timeout=WAIT_S))
        fails(grpc.StatusCode.UNIMPLEMENTED,
              lambda: list(client.method("stream_stream", path, client.Text)(iter([client.Text()]), timeout=WAIT_S)))


def malformed(client):
    def raw(kind, path):
        return getattr(client.channel, kind)(path, request_serializer=None, response_deserializer=None)
    deep = b""
    for _ in range(20000):
        size, varint = len(deep), b""
        while size > 0x7f:
            varint += bytes([size & 0x7f | 0x80])
            size >>= 7
        deep = b"\x1a" + varint + bytes([size]) + deep
    for junk in b"\xff", b"\x0a\x7fshort", b"\x0d\x00", deep:
        error = fails(grpc.StatusCode.INVALID_ARGUMENT,
                      lambda: raw("unary_unary", "/berth.test.v1.Echo/Say")(junk, timeout=WAIT_S))
        assert details_of(client, error)[1].reason == "INVALID"
        fails(grpc.StatusCode.INVALID_ARGUMENT,
              lambda: list(raw("stream_stream", "/berth.test.v1.Echo/Chat")(iter([junk]), timeout=WAIT_S)))
    fails(grpc.StatusCode.INVALID_ARGUMENT,
          lambda: list(raw("unary_stream", "/berth.test.v1.Echo/Count")(b"\xff", timeout=WAIT_S)))


def oversized(client):
    channel = grpc.insecure_channel("127.0.0.1:" + client.plain, options=[("grpc.max_send_message_length", -1)])
    with contextlib.closing(channel):
        big = client.Text(payload=bytes(17 * 1024 * 1024))
        fails(grpc.StatusCode.RESOURCE_EXHAUSTED,
              lambda: client.method("unary_unary", "/berth.test.v1.Echo/Say", client.Text, channel)(big, timeout=WAIT_S))
        fails(grpc.StatusCode.RESOURCE_EXHAUSTED,
              lambda: list(client.method("stream_stream", "/berth.test.v1.Echo/Chat", client.Text, channel)(
                  iter([big]), timeout=WAIT_S)))
        assert client.say("alive", channel).text == "alive"


def compressed(client):
    """Refused: what a compressed message grows to has no bound before it has grown."""
    fails(grpc.StatusCode.UNIMPLEMENTED, lambda: client.say("x" * 1000, compression=grpc.Compression.Gzip))


def mutual_tls(client):
    with contextlib.closing(client.secure("agent")) as channel:
        assert client.say("who", channel).text.startswith("agent/fleet-1/quay-1/")
    with contextlib.closing(client.secure("user")) as channel:
        error = fails(grpc.StatusCode.PERMISSION_DENIED, lambda: client.say("who", channel))
        assert details_of(client, error)[1].reason == "DENIED"


def no_certificate(client):
    with contextlib.closing(client.secure(None)) as channel:
        fails(grpc.StatusCode.UNAVAILABLE, lambda: client.say("who", channel))


def health_check(client):
    check = client.method("unary_unary", "/grpc.health.v1.Health/Check", client.HealthResponse)
    for line, status in ("serving", 1), ("not-serving", 2):
        assert client.ask(line) == "ok"
        for name in "", "berth.test.v1.Echo":
            assert check(client.HealthRequest(service=name), timeout=WAIT_S).status == status
    fails(grpc.StatusCode.NOT_FOUND, lambda: check(client.HealthRequest(service="x"), timeout=WAIT_S))


def health_check_by_a_user(client):
    with contextlib.closing(client.secure("user")) as channel:
        check = client.method("unary_unary", "/grpc.health.v1.Health/Check", client.HealthResponse, channel)
        assert check(client.HealthRequest(), timeout=WAIT_S).status in (1, 2)


def health_watch(client):
    client.ask("not-serving")
    watch = client.method("unary_stream", "/grpc.health.v1.Health/Watch", client.HealthResponse)
    call = watch(client.HealthRequest(), timeout=WAIT_S)
    assert next(call).status == 2
    for line, status in ("serving", 1), ("not-serving", 2), ("serving", 1):
        client.ask(line)
        assert next(call).status == status
    call.cancel()
    call = watch(client.HealthRequest(service="x"), timeout=WAIT_S)
    assert next(call).status == 3
    call.cancel()


def goodbye(client):
    """A watch is told and ended, and the server stops by itself."""
    client.ask("serving")
    call = client.method("unary_stream", "/grpc.health.v1.Health/Watch", client.HealthResponse)(client.HealthRequest())
    assert next(call).status == 1
    client.process.stdin.close()
    assert next(call).status == 2
    fails(grpc.StatusCode.UNAVAILABLE, lambda: next(call))
    assert client.process.wait(WAIT_S) == 0


TESTS = [unary, unary_many, client_stream, server_stream, bidi, bidi_turns, headers, deadline, cancel, status_details,
         unknown_methods, malformed, oversized, compressed, mutual_tls, no_certificate, health_check,
         health_check_by_a_user, health_watch, goodbye]


def main():
    client = Client(*sys.argv[1:])
    failed = 0
    for test in TESTS:
        try:
            test(client)
            print("ok  ", test.__name__, flush=True)
        except Exception:
            failed += 1
            print("FAIL", test.__name__, flush=True)
            traceback.print_exc(file=sys.stdout)
    if client.stop() != 0:
        failed += 1
        print("FAIL the server's exit status")
    print(f"{max(0, len(TESTS) - failed)} passed, {failed} failed, 0 skipped")
    return failed != 0


sys.exit(main())
