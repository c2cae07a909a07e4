import { describe, expect, test } from 'vitest';
import { engineFindings } from './engine-check.ts';

const command = { name: 'room', allowArgs: false, allowEnv: [] };
const container = { ...command, name: 'box', image: 'room:1' };
const drone = {
  ...{ droneId: 'drone-1', status: 'ready' as const },
  programs: [command, container],
};

describe('the doctor on the container engine of a drone', () => {
  test('reports nothing where no program is a container', () => {
    expect(engineFindings({ ...drone, programs: [command], engine: null })).toEqual([]);
  });

  test('reports that it answers', () => {
    expect(engineFindings({ ...drone, engine: { problem: null } })).toMatchObject([
      { state: 'well', subject: 'container engine of drone-1' },
    ]);
  });

  test('reports it as wrong when it does not answer, with what to do', () => {
    const [finding] = engineFindings({ ...drone, engine: { problem: 'it does not answer' } });

    expect(finding).toMatchObject({ state: 'wrong', text: 'it does not answer' });
    expect(finding?.advice).toMatch(/engine\.socket/u);
  });

  test('is unsure before the drone has asked it', () => {
    expect(engineFindings({ ...drone, engine: null })).toMatchObject([{ state: 'unsure' }]);
  });

  test.each(['lost', 'stopped'] as const)('reports nothing about a drone that is %s', (status) => {
    expect(engineFindings({ ...drone, status, engine: { problem: 'x' } })).toEqual([]);
  });
});
