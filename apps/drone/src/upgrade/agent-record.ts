import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const RECORD = 'agent.json';

/** Which agent commands the warden of a state folder, in its own words; it may have ended since. */
export interface AgentRecord {
  readonly pid: number;
  readonly version: string;
  readonly build: string | null;
}

/** Written whole or not at all. */
export function writeAgentRecord(stateDir: string, record: AgentRecord): void {
  const file = path.join(stateDir, RECORD);
  const draft = `${file}.${String(process.pid)}`;
  writeFileSync(draft, `${JSON.stringify(record)}\n`, { mode: 0o600 });
  renameSync(draft, file);
}

/** Undefined when no agent has left one: those of before this version do not. */
export function readAgentRecord(stateDir: string): AgentRecord | undefined {
  try {
    const text = readFileSync(path.join(stateDir, RECORD), 'utf8');
    const { pid, version, build = null } = JSON.parse(text) as Partial<AgentRecord>;
    if (typeof pid !== 'number' || typeof version !== 'string') return undefined;
    return { pid, version, build };
  } catch {
    return undefined;
  }
}
