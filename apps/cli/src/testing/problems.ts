import { parseConfig } from '../config.ts';

/** What is wrong with an environment; empty when it is valid. */
export function problemsOf(environment: Record<string, string>): string {
  try {
    parseConfig(environment);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return '';
}
