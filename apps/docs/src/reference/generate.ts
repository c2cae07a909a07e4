/** Makes the pages of the reference. */
import { commandsPage } from './commands.ts';
import { configurationPage } from './configuration.ts';
import { metricsPage } from './metrics.ts';
import { readDescription } from './description.ts';
import { proceduresPage } from './procedures.ts';
import { promisesPage } from './promises.ts';
import { typesPage } from './types.ts';

/** The text of each page, by its address. */
export function referencePages(): ReadonlyMap<string, string> {
  const description = readDescription();
  return new Map([
    ['reference/procedures', proceduresPage(description)],
    ['reference/types', typesPage(description)],
    ['reference/configuration', configurationPage()],
    ['reference/commands', commandsPage()],
    ['reference/metrics', metricsPage()],
    ['evidence/promises', promisesPage()],
  ]);
}
