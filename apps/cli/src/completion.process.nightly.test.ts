import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';

const run = promisify(execFile);
const CLI = new URL('../bin/leasehold.mjs', import.meta.url).pathname;

/** What a shell is offered for what was typed so far. */
async function offered(...typed: string[]): Promise<string[]> {
  const { stdout } = await run(process.execPath, [CLI, 'complete', '--', ...typed]);
  return stdout.split('\n').flatMap((line) => line.split('\t')[0] ?? []);
}

describe('shell completion', () => {
  test('offers commands, the commands of a group, and their options', async () => {
    expect(await offered('le')).toContain('leases');
    expect(await offered('drones', '')).toEqual(expect.arrayContaining(['ls', 'drain']));
    expect(await offered('drones', 'drain', '--')).toContain('--json');
  });

  test.each(['bash', 'zsh', 'fish', 'powershell'])('makes a script for %s', async (shell) => {
    const { stdout } = await run(process.execPath, [CLI, 'completion', shell]);

    expect(stdout).toContain('leasehold');
    expect(stdout).toContain('complete');
  });

  test('completes in bash', async () => {
    const program = [
      `leasehold() { '${process.execPath}' '${CLI}' "$@"; }`,
      'source <(leasehold completion bash)',
      // What the package bash-completion of the distribution does.
      '_get_comp_words_by_ref() { cur=dr; prev=drones; words=(leasehold drones dr); cword=2; }',
      'compopt() { :; }',
      '__leasehold_complete',
      'printf "%s\\n" "${COMPREPLY[@]}"',
    ].join('\n');

    const { stdout } = await run('bash', ['-c', program]);

    expect(stdout.trim()).toBe('drain');
  });

  test('another shell is refused', async () => {
    await expect(run(process.execPath, [CLI, 'completion', 'tcsh'])).rejects.toMatchObject({
      code: 2,
    });
  });
});
