/**
 * A container engine, such as Docker or Podman, over the socket of its API. Agent and warden use it;
 * neither waits for it longer than it says, and no deadline depends on its answer.
 */
import type Docker from 'dockerode';
import type { Container, ContainerCreateOptions } from 'dockerode';
import type { Readable, Writable } from 'node:stream';

/** How long the engine may take for what it does in milliseconds when it is well. */
const ANSWER_MS_MAX = 10_000;
const TEXT_LENGTH_MAX = 500;
/** What is killed without the engine is found by this, in the names of control groups: a short one would find others. */
const CONTAINER_ID = /^[0-9a-f]{64}$/u;

/** The engine answered that it does not do it: nothing was done. */
export class EngineRefused extends Error {
  override readonly name = 'EngineRefused';
  readonly statusCode: number;

  constructor(message: string, statusCode: number) {
    super(message);
    this.statusCode = statusCode;
  }
}

/** The engine does not answer, or not in time: whether it was done is unknown. */
export class EngineSilent extends Error {
  override readonly name = 'EngineSilent';
}

/** How a container ended, as the engine records it. */
interface ContainerEnd {
  readonly exitCode: number | null;
  readonly isOutOfMemory: boolean;
}

interface ListedContainer {
  readonly containerId: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** User and password for a registry, or a token that stands for them. */
export type RegistryLogin =
  { readonly username: string; readonly password: string } | { readonly identitytoken: string };

interface OutputSinks {
  readonly stdout: Writable;
  readonly stderr: Writable;
}

/** See the top of this file. Every call may throw {@link EngineRefused} or {@link EngineSilent}. */
export class Engine {
  readonly socket: string;
  #client: Promise<Docker> | undefined;

  constructor(socket: string) {
    this.socket = socket;
  }

  /** Resolves when it answers. */
  async ping(timeoutMs: number): Promise<void> {
    await this.#ask<unknown>(timeoutMs, (docker) => docker.ping());
  }

  /** The id of an image that is there; undefined if it is not. */
  async imageId(name: string): Promise<string | undefined> {
    const image = await unlessMissing(
      this.#ask(ANSWER_MS_MAX, (docker) => docker.getImage(name).inspect()),
    );
    return image?.Id;
  }

  /** Resolves when the image is there. */
  async pull(
    name: string,
    { login, signal }: { login: RegistryLogin | undefined; signal: AbortSignal },
  ): Promise<void> {
    const docker = await this.#open();
    await this.#outcome(async () => {
      const options = { abortSignal: signal, ...(login && { authconfig: login }) };
      const failure = await pullFailure(await docker.pull(name, options));
      if (failure !== undefined) throw new EngineRefused(shorten(failure), 500);
    }, signal);
  }

  /** Makes a container that does not run yet. Returns its id. */
  async create(
    name: string,
    spec: Readonly<Record<string, unknown>>,
    timeoutMs: number,
  ): Promise<string> {
    // The engine itself checks what it is asked for.
    const options = { ...spec, name } as ContainerCreateOptions;
    const created = await this.#ask(timeoutMs, (docker, abortSignal) =>
      docker.createContainer({ ...options, abortSignal }),
    );
    if (!CONTAINER_ID.test(created.id)) {
      throw new Error(
        `the engine gave a container the id ${JSON.stringify(created.id)}, which is not a hash`,
      );
    }
    return created.id;
  }

  async start(containerId: string, timeoutMs: number): Promise<void> {
    await this.#on(containerId, timeoutMs, (container, abortSignal) =>
      container.start({ abortSignal }),
    );
  }

  /** Sends the output of a container into sinks, as fast as they take it, from now until the engine ends it. */
  async follow(
    containerId: string,
    sinks: OutputSinks,
    { onEnd, timeoutMs = ANSWER_MS_MAX }: { onEnd: () => void; timeoutMs?: number },
  ): Promise<void> {
    const docker = await this.#open();
    const wanted = new AbortController();
    const options = { stream: true, stdout: true, stderr: true, abortSignal: wanted.signal };
    const stream = await this.#ask(timeoutMs, () =>
      docker.getContainer(containerId).attach(options),
    ).catch((error: unknown) => {
      // An engine that answers later would wait for somebody who reads.
      wanted.abort();
      throw error;
    });
    docker.modem.demuxStream(stream, sinks.stdout, sinks.stderr);
    waitForSinks(stream, [sinks.stdout, sinks.stderr]);
    stream.on('error', onEnd);
    stream.on('close', onEnd);
  }

  async kill(containerId: string): Promise<void> {
    await this.#on(containerId, ANSWER_MS_MAX, (container, abortSignal) =>
      container.kill({ signal: 'SIGKILL', abortSignal }),
    );
  }

  /** Whether a container runs, as the engine sees it; false for one that does not exist. */
  async isRunning(containerId: string): Promise<boolean> {
    const found = await unlessMissing(
      this.#on(containerId, ANSWER_MS_MAX, (container, abortSignal) =>
        container.inspect({ abortSignal }),
      ),
    );
    return found?.State.Running ?? false;
  }

  /** How a container that has ended did so; waits for the engine to notice it. */
  async endOf(containerId: string, timeoutMs: number): Promise<ContainerEnd> {
    const { StatusCode: exitCode } = (await this.#on(
      containerId,
      timeoutMs,
      (container, abortSignal) => container.wait({ abortSignal }),
    )) as { StatusCode: number };
    const { State } = await this.#on(containerId, timeoutMs, (container, abortSignal) =>
      container.inspect({ abortSignal }),
    );
    return { exitCode, isOutOfMemory: State.OOMKilled };
  }

  /** Kills it if it runs, and removes what is left; also resolves if it does not exist. */
  async remove(containerId: string): Promise<void> {
    await unlessMissing(
      this.#on(containerId, ANSWER_MS_MAX, (container, abortSignal) =>
        container.remove({ force: true, v: true, abortSignal }),
      ),
    );
  }

  /** Every container with a label, running or not. */
  async labelled(name: string, value: string): Promise<ListedContainer[]> {
    const found = await this.#ask(ANSWER_MS_MAX, (docker, abortSignal) =>
      docker.listContainers({
        all: true,
        filters: { label: [`${name}=${value}`] },
        abortSignal,
      }),
    );
    return found.map(({ Id, Labels }) => ({ containerId: Id, labels: Labels }));
  }

  /** Loaded when it is first needed: a drone without containers does without it. */
  #open(): Promise<Docker> {
    this.#client ??= import('dockerode').then(
      ({ default: Client }) => new Client({ socketPath: this.socket, host: undefined }),
    );
    return this.#client;
  }

  #on<T>(
    containerId: string,
    timeoutMs: number,
    request: (container: Container, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    return this.#ask(timeoutMs, (docker, signal) =>
      request(docker.getContainer(containerId), signal),
    );
  }

  async #ask<T>(
    timeoutMs: number,
    request: (docker: Docker, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const docker = await this.#open();
    const signal = AbortSignal.timeout(Math.max(Math.ceil(timeoutMs), 1));
    const isLate = new Promise<never>((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(new Error('not in time')), { once: true });
    });
    // Not every request can be aborted.
    return this.#outcome(() => Promise.race([request(docker, signal), isLate]), signal);
  }

  async #outcome<T>(request: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    try {
      return await request();
    } catch (cause) {
      if (cause instanceof EngineRefused || cause instanceof EngineSilent) throw cause;
      const statusCode = statusOf(cause);
      if (statusCode !== undefined) throw new EngineRefused(reasonOf(cause), statusCode);
      const why = signal?.aborted === true ? 'not in time' : codeOf(cause);
      throw new EngineSilent(`the container engine at ${this.socket} does not answer (${why})`, {
        cause,
      });
    }
  }
}

/** No line of an engine is longer. */
const PULL_LINE_LENGTH_MAX = 1_048_576;

/** The engine answers with 200 first, and reports a failure in a line of its progress; undefined without one. */
async function pullFailure(progress: NodeJS.ReadableStream): Promise<string | undefined> {
  progress.setEncoding('utf8');
  let rest = '';
  for await (const chunk of progress) {
    const lines = `${rest}${String(chunk)}`.split('\n');
    rest = lines.pop() ?? '';
    const failure = lines.map(failureIn).find((found) => found !== undefined);
    if (failure !== undefined) return failure;
    if (rest.length > PULL_LINE_LENGTH_MAX) return 'its answer to a pull cannot be read';
  }
  return failureIn(rest);
}

function failureIn(line: string): string | undefined {
  if (line.trim() === '') return undefined;
  try {
    const { error } = JSON.parse(line) as { readonly error?: unknown };
    if (error === undefined) return undefined;
    return typeof error === 'string' ? error : JSON.stringify(error);
  } catch {
    // A proxy before the engine may answer with a page.
    return `its answer to a pull cannot be read: ${line.trim()}`;
  }
}

/** The client writes without asking whether there is room: a container that floods its log would fill the memory. */
function waitForSinks(stream: NodeJS.ReadableStream, sinks: readonly Writable[]): void {
  const goOn = (): void => {
    if (!sinks.some((sink) => sink.writableNeedDrain)) stream.resume();
  };
  for (const sink of sinks) sink.on('drain', goOn);
  const end = (): void => void (stream as Readable).destroy();
  for (const sink of sinks) sink.once('close', end);
  stream.on('data', () => {
    if (sinks.some((sink) => sink.writableNeedDrain)) stream.pause();
  });
  stream.on('close', () => {
    for (const sink of sinks) sink.off('drain', goOn).off('close', end);
  });
}

async function unlessMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof EngineRefused && error.statusCode === 404) return undefined;
    throw error;
  }
}

function statusOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('statusCode' in error)) return undefined;
  return typeof error.statusCode === 'number' ? error.statusCode : undefined;
}

/** What the engine says, without the text that the client puts before it, in one line: a proxy may answer with a page. */
function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return shorten(
    text
      .replace(/^\(HTTP code \d+\) .*? - /su, '')
      .replaceAll(/\p{Cc}+/gu, ' ')
      .trim(),
  );
}

function codeOf(error: unknown): string {
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') {
    return error.code;
  }
  return error instanceof Error ? error.message : String(error);
}

function shorten(text: string): string {
  const shown = text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_MAX)} …` : text;
  return shown.toWellFormed();
}
