// SPDX-License-Identifier: Apache-2.0
// @grpc/grpc-js as a client of our server. Arguments: the server, the Echo descriptor set, the health set.
'use strict';

const assert = require('assert');
const {spawn} = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const readline = require('readline');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const WAIT_MS = 30000;
const [, , serverPath, echoSet, healthSet] = process.argv;

function load(file) {
  return grpc.loadPackageDefinition(loader.loadFileDescriptorSetFromBuffer(fs.readFileSync(file), {longs: Number, defaults: true}));
}

const Echo = load(echoSet).berth.test.v1.Echo;
const Health = load(healthSet).grpc.health.v1.Health;

class Server {
  constructor() {
    this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-interop-'));
    this.process = spawn(serverPath, [this.folder], {stdio: ['pipe', 'pipe', 'inherit']});
    this.lines = readline.createInterface({input: this.process.stdout})[Symbol.asyncIterator]();
    this.exited = new Promise((resolve) => this.process.on('exit', (code) => resolve(code)));
  }

  async start() {
    [this.plain, this.tls] = (await this.lines.next()).value.split(' ');
    this.echo = new Echo(`127.0.0.1:${this.plain}`, grpc.credentials.createInsecure());
    this.health = new Health(`127.0.0.1:${this.plain}`, grpc.credentials.createInsecure());
  }

  async ask(line) {
    this.process.stdin.write(line + '\n');
    return (await this.lines.next()).value;
  }

  secure(name) {
    const read = (part) => fs.readFileSync(path.join(this.folder, part));
    return new Echo(`127.0.0.1:${this.tls}`, grpc.credentials.createSsl(read('ca.pem'),
      name && read(name + '.key'), name && read(name + '.pem')));
  }

  async stop() {
    this.echo.close();
    this.health.close();
    this.process.stdin.end();
    const code = await this.exited;
    fs.rmSync(this.folder, {recursive: true});
    return code;
  }
}

const within = (ms = WAIT_MS) => ({deadline: Date.now() + ms});

function say(client, text, {metadata = new grpc.Metadata(), ms} = {}) {
  return new Promise((resolve, reject) => {
    client.Say({text}, metadata, within(ms), (error, answer) => error ? reject(error) : resolve(answer));
  });
}

async function all(stream) {
  const messages = [];
  for await (const message of stream) messages.push(message);
  return messages;
}

async function fails(code, promise) {
  let error = null;
  await promise.catch((caught) => { error = caught; });
  assert(error, `wanted status ${code}, got an answer`);
  assert.strictEqual(error.code, code, error.message);
  return error;
}

// One event of an emitter; an error rejects.
function next(stream) {
  return new Promise((resolve, reject) => {
    const done = (act) => (value) => {
      stream.removeAllListeners('data');
      stream.removeAllListeners('error');
      stream.pause();
      stream.on('error', () => {});
      act(value);
    };
    stream.once('data', done(resolve));
    stream.once('error', done(reject));
    stream.resume();
  });
}

const tests = {
  async unary(server) {
    assert.strictEqual((await say(server.echo, 'hello')).text, 'hello');
    assert.strictEqual((await say(server.echo, 'bytes:3000000')).payload.length, 3000000);
    const many = await Promise.all(Array.from({length: 300}, (_, i) => say(server.echo, String(i))));
    assert.deepStrictEqual(many.map((answer) => answer.text), Array.from({length: 300}, (_, i) => String(i)));
  },

  async clientStream(server) {
    const answer = new Promise((resolve, reject) => {
      const call = server.echo.Join(within(), (error, got) => error ? reject(error) : resolve(got));
      for (const text of 'berth') call.write({text});
      call.end();
    });
    assert.strictEqual((await answer).text, 'berth');
  },

  async cancel(server) {
    // Not with Chat: node ends its own side before it resets the stream, and Chat would take that for the end.
    const call = server.echo.Count({value: -1}, within());
    assert.strictEqual(await server.ask('seen Count begin'), 'ok');
    const ended = next(call);
    call.cancel();
    await fails(grpc.status.CANCELLED, ended);
    assert.strictEqual(await server.ask('seen Count cancelled'), 'ok');
  },

  async serverStream(server) {
    const numbers = await all(server.echo.Count({value: 1000, paddingSize: 100}, within()));
    assert.deepStrictEqual(numbers.map((number) => number.value), Array.from({length: 1000}, (_, i) => i));
  },

  async bidi(server) {
    const call = server.echo.Chat(within());
    for (let i = 0; i < 20; i++) {
      const answer = next(call);
      call.write({text: String(i)});
      assert.strictEqual((await answer).text, String(i));
    }
    call.end();
    assert.deepStrictEqual(await all(call), []);
  },

  async headers(server) {
    const metadata = new grpc.Metadata();
    metadata.set('x-test', 'seen');
    assert.strictEqual((await say(server.echo, 'header:x-test', {metadata})).text, 'seen');
  },

  async deadline(server) {
    await fails(grpc.status.DEADLINE_EXCEEDED, say(server.echo, 'hold', {ms: 200}));
    assert.strictEqual(await server.ask('seen Say cancelled'), 'ok');
  },

  async statusDetails(server) {
    const error = await fails(grpc.status.FAILED_PRECONDITION, say(server.echo, 'fail:FENCED'));
    assert.strictEqual(error.details, 'asked for FENCED');
    const [details] = error.metadata.get('grpc-status-details-bin');
    assert(details.includes('type.googleapis.com/google.rpc.ErrorInfo'));
    assert(details.includes('FENCED') && details.includes('berth'));
  },

  async unknownMethod(server) {
    await fails(grpc.status.UNIMPLEMENTED, new Promise((resolve, reject) => {
      server.echo.Unserved({}, within(), (error, answer) => error ? reject(error) : resolve(answer));
    }));
    const same = (value) => value;
    await fails(grpc.status.UNIMPLEMENTED, new Promise((resolve, reject) => {
      server.echo.makeUnaryRequest('/nobody/Knows', same, same, Buffer.alloc(0),
        (error, answer) => error ? reject(error) : resolve(answer));
    }));
  },

  async mutualTls(server) {
    const agent = server.secure('agent');
    assert((await say(agent, 'who')).text.startsWith('agent/fleet-1/quay-1/'));
    agent.close();
    const user = server.secure('user');
    await fails(grpc.status.PERMISSION_DENIED, say(user, 'who'));
    user.close();
    const nobody = server.secure(null);
    await fails(grpc.status.UNAVAILABLE, say(nobody, 'who'));
    nobody.close();
  },

  async health(server) {
    const check = (service) => new Promise((resolve, reject) => {
      server.health.Check({service}, within(), (error, answer) => error ? reject(error) : resolve(answer.status));
    });
    await server.ask('serving');
    assert.strictEqual(await check(''), 1);
    await fails(grpc.status.NOT_FOUND, check('x'));
    const watch = server.health.Watch({service: 'berth.test.v1.Echo'}, within());
    assert.strictEqual((await next(watch)).status, 1);
    await server.ask('not-serving');
    assert.strictEqual((await next(watch)).status, 2);
    watch.cancel();
    assert.strictEqual(await check('berth.test.v1.Echo'), 2);
  },
};

async function main() {
  const server = new Server();
  await server.start();
  let failed = 0;
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test(server);
      console.log(`ok   ${name}`);
    } catch (error) {
      failed++;
      console.log(`FAIL ${name}: ${error.stack}`);
    }
  }
  const code = await server.stop();
  if (code !== 0) {
    failed++;
    console.log(`FAIL the server's exit status: ${code}`);
  }
  console.log(`${Object.keys(tests).length - failed} passed, ${failed} failed, 0 skipped`);
  process.exit(failed ? 1 : 0);
}

main();
