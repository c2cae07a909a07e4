/** Compiles the TypeScript blocks of the pages, and runs them and those of JavaScript, each as a module of its own. */
import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
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

/** The errors that the compiler finds in the blocks; empty when it finds nothing. */
export async function compileProblems(): Promise<string> {
  const compiler = path.join(REPOSITORY, 'node_modules', 'typescript', 'bin', 'tsc');
  try {
    await run(process.execPath, [compiler, '--noEmit', '-p', MODULES], { cwd: MODULES });
    return '';
  } catch (error) {
    return (error as { stdout?: string }).stdout ?? String(error);
  }
}

/** How many modules run at once. */
const RUNS_MAX = 2;

/** Runs the modules of all blocks to their ends. @returns what went wrong, by block. */
export async function runModules(
  blocks: readonly Block[],
  stage: Stage,
): Promise<Map<Block, unknown>> {
  const failures = new Map<Block, unknown>();
  const waiting = [...blocks];
  const worker = async (): Promise<void> => {
    for (let block = waiting.shift(); block !== undefined; block = waiting.shift()) {
      try {
        await runModule(block, stage);
      } catch (error) {
        failures.set(block, error);
      }
    }
  };
  await Promise.all(Array.from({ length: RUNS_MAX }, worker));
  return failures;
}

/** Rejects when the module throws, or goes on for too long. */
async function runModule(block: Block, stage: Stage): Promise<void> {
  // tsx would also read what this Node cannot.
  if (block.language === 'js') await run(process.execPath, ['--check', moduleOf(block)]);
  // What a module disposes of at its end is disposed of; what it leaves open ends with the process.
  const program = `await import(${JSON.stringify(moduleOf(block))}); process.exit(0);`;
  await run(
    process.execPath,
    ['--conditions=@leasehold/source', '--import', 'tsx', '--input-type=module', '--eval', program],
    {
      timeout: RUN_MS_MAX,
      cwd: REPOSITORY,
      env: {
        PATH: process.env['PATH'],
        LEASEHOLD_URL: stage.controllerUrl,
        LEASEHOLD_TOKEN: stage.token,
        DATABASE_URL: stage.databaseUrl,
      },
    },
  );
}

function readSetup(name: string): Promise<string> {
  return readFile(path.join(SETUPS, `${name}.ts`), 'utf8');
}
