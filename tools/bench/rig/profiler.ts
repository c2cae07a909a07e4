/** Where the processor time of a process goes, by part of the product: a CPU profile, read by source file. */
import { readFile } from 'node:fs/promises';
import { Session, type Profiler as Devtools } from 'node:inspector/promises';
import { SourceMap, type SourceMapPayload } from 'node:module';
import { fileURLToPath } from 'node:url';

/** Microseconds of processor time on the main thread, by part. */
export type TimeByPart = Readonly<Record<string, number>>;

const SAMPLE_US = 200;
const RUNTIME = 'runtime';

/** The first pattern that fits the path of a function's source names its part. */
const PARTS: readonly (readonly [RegExp, string])[] = [
  [/node_modules\/ws\/|\/http\/sockets\/|client\/src\/transport\//u, 'wire'],
  [/node_modules\/@trpc\//u, 'tRPC'],
  [/node_modules\/zod\/|api\/src\/(?:bounded-input|contract)|kernel\/text/u, 'validation'],
  [/controller\/src\/(?:fair-use|http)\/|api\/src\/access|fair-queue/u, 'identity and limits'],
  [/node_modules\/pg|keys-core\/src\/postgres\//u, 'driver'],
  [/node_modules\/@opentelemetry|prom-client|observability|metrics/u, 'metrics and traces'],
  [/libs\/|apps\//u, 'service'],
  [/tools\/bench/u, 'the benchmark itself'],
];

/** Samples this process until the returned function is called. */
export async function startProfiler(): Promise<() => Promise<TimeByPart>> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.setSamplingInterval', { interval: SAMPLE_US });
  await session.post('Profiler.start');
  return async () => {
    const { profile } = await session.post('Profiler.stop');
    session.disconnect();
    return timeByPart(profile);
  };
}

async function timeByPart({ nodes, samples = [], timeDeltas = [] }: Devtools.Profile) {
  const maps = await sourceMapsOf(nodes);
  const parts = new Map(nodes.map((node) => [node.id, partOf(node.callFrame, maps)]));
  const times: Record<string, number> = {};
  for (const [index, id] of samples.entries()) {
    const part = parts.get(id);
    if (part !== undefined) times[part] = (times[part] ?? 0) + (timeDeltas[index] ?? 0);
  }
  return times;
}

/** Undefined while the process waits. */
function partOf(
  { functionName, url, lineNumber, columnNumber }: Devtools.ProfileNode['callFrame'],
  maps: ReadonlyMap<string, SourceMap>,
): string | undefined {
  if (functionName === '(idle)') return undefined;
  if (functionName === '(garbage collector)') return 'garbage collection';
  // To begin and to end a profile takes a while itself.
  if (functionName === 'dispatch' && url === '') return undefined;
  if (url.startsWith('node:')) return /net|stream|buffer/u.test(url) ? 'wire' : RUNTIME;
  const entry = maps.get(url)?.findEntry(lineNumber, columnNumber);
  const source = entry !== undefined && 'originalSource' in entry ? entry.originalSource : url;
  return PARTS.find(([pattern]) => pattern.test(source))?.[1] ?? RUNTIME;
}

async function sourceMapsOf(nodes: readonly Devtools.ProfileNode[]) {
  const urls = new Set(nodes.map(({ callFrame }) => callFrame.url));
  const maps = new Map<string, SourceMap>();
  for (const url of urls) {
    if (!url.startsWith('file:')) continue;
    const text = await readFile(`${fileURLToPath(url)}.map`, 'utf8').catch(() => undefined);
    if (text !== undefined) maps.set(url, new SourceMap(JSON.parse(text) as SourceMapPayload));
  }
  return maps;
}
