/** Compiles the TypeScript blocks of the pages, and runs them and those of JavaScript, each as a module of its own. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { placeOf, type Block } from './blocks.ts';
import { REPOSITORY, type Stage } from './stage.ts';

const SETUPS = path.join(import.meta.dirname, 'setups');
/** The line of a setup that the block takes the place of. */
const PLACE = '// <block>';
const RUN_MS_MAX = 30_000;

const run = promisify(execFile);

/** Inside the repository, so that imports are found; for this run alone. */
const MODULES = path.join(REPOSITORY, '.test-results', `docs-blocks-${String(process.pid)}`);

/** The configuration of oxlint with which it reports the compiler's errors, and nothing else. */
const ONLY_TYPES = path.join(MODULES, '.oxlintrc.json');
const ONLY_COMPILE = {
  plugins: [],
  categories: { correctness: 'off' },
  options: { typeAware: true, typeCheck: true },
};

function moduleOf(block: Block): string {
  const ending = block.language === 'js' ? 'mjs' : 'ts';
  return path.join(MODULES, `${placeOf(block).replaceAll(/[^\w]+/gu, '-')}.${ending}`);
}

/** Writes the modules of all blocks. */
export async function writeModules(blocks: readonly Block[], stage: Stage): Promise<void> {
  await mkdir(MODULES, { recursive: true });
  const config = {
    extends: path.join(REPOSITORY, 'tsconfig.base.json'),
    compilerOptions: {
      // A piece of code need not use what it shows, and shows environment variables as people write them.
      noUnusedLocals: false,
      noUnusedParameters: false,
      noPropertyAccessFromIndexSignature: false,
      typeRoots: [path.join(REPOSITORY, 'node_modules', '@types')],
    },
    include: ['*.ts'],
  };
  await writeFile(path.join(MODULES, 'tsconfig.json'), JSON.stringify(config));
  await writeFile(ONLY_TYPES, JSON.stringify(ONLY_COMPILE));
  await Promise.all(
    blocks.map(async (block) => {
      const text = stage.adapt(block.lines.join('\n'));
      const setup = block.mark === undefined ? PLACE : await readSetup(block.mark.value);
      if (!setup.includes(PLACE)) throw new Error(`the setup of ${placeOf(block)} has no ${PLACE}`);
      // With a function, so that `$&` in a block means nothing special.
      await writeFile(
        moduleOf(block),
        setup.replace(PLACE, () => text),
      );
    }),
  );
}

export async function removeModules(): Promise<void> {
  await rm(MODULES, { recursive: true, force: true });
}

/**
 * The errors that the compiler finds in the blocks; empty when it finds nothing. It is the one of `npm run typecheck`,
 * which takes a tenth of the time of `tsc`.
 */
export async function compileProblems(): Promise<string> {
  const compiler = path.join(REPOSITORY, 'node_modules', '.bin', 'oxlint');
  const files = (await readdir(MODULES)).filter((name) => name.endsWith('.ts'));
  // Git ignores the folder.
  const args = ['--no-ignore', '--config', ONLY_TYPES, ...files];
  try {
    await run(process.execPath, [compiler, ...args], { cwd: MODULES });
    return '';
  } catch (error) {
    return (error as { stdout?: string }).stdout ?? String(error);
  }
}

/** Imports one module after the other; what one leaves open goes on beside the next. */
const RUNNER = `
import { setTimeout as pause } from 'node:timers/promises';
const [, msMax, ...files] = process.argv;
let failed;
process.on('unhandledRejection', (error) => failed(error));
process.on('uncaughtException', (error) => failed(error));
for (const [place, file] of files.entries()) {
  const over = new AbortController();
  const failure = await Promise.race([
    new Promise((resolve) => (failed = resolve)),
    pause(Number(msMax), new Error('it did not end'), { signal: over.signal }),
    import(file).then(() => undefined, (error) => error ?? new Error('it threw nothing')),
  ]);
  over.abort();
  process.send({ place, problem: failure === undefined ? null : String(failure?.stack ?? failure) });
}
process.disconnect();
process.exit(0);
`;

/**
 * Runs the modules of all blocks to their ends, in one process: most of the work is to load what they import.
 * @returns what went wrong, by block.
 */
export async function runModules(
  blocks: readonly Block[],
  stage: Stage,
): Promise<Map<Block, unknown>> {
  // tsx would also read what this Node cannot.
  for (const block of blocks.filter(({ language }) => language === 'js')) {
    await run(process.execPath, ['--check', moduleOf(block)]);
  }
  const child = spawn(
    process.execPath,
    [
      ...['--conditions=@leasehold/source', '--import', 'tsx', '--input-type=module'],
      ...['--eval', RUNNER, '--', String(RUN_MS_MAX), ...blocks.map(moduleOf)],
    ],
    {
      cwd: REPOSITORY,
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      env: {
        PATH: process.env['PATH'],
        LEASEHOLD_URL: stage.controllerUrl,
        LEASEHOLD_TOKEN: stage.token,
        DATABASE_URL: stage.databaseUrl,
      },
    },
  );
  let printed = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (printed += text));
  // A block has failed until it is known to have ended.
  const failures = new Map<Block, unknown>(blocks.map((block) => [block, 'it has not run']));
  child.on('message', ({ place, problem }: { place: number; problem: string | null }) => {
    const block = blocks[place];
    if (block === undefined) return;
    if (problem === null) failures.delete(block);
    else failures.set(block, problem);
  });
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`the blocks ended with ${String(code)}\n${printed}`);
  return failures;
}

function readSetup(name: string): Promise<string> {
  return readFile(path.join(SETUPS, `${name}.ts`), 'utf8');
}
