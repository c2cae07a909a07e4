/** The types with names that answers and inputs use. */
import type { Description } from './description.ts';
import { typesIn, typeText } from './schema-text.ts';

export function typesPage({ components }: Description): string {
  const sections = Object.entries(components.schemas)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, schema]) => {
      const uses = [...new Set(typesIn(schema))].filter((used) => used !== name).sort();
      const links = uses.map((used) => `[${used}](#${used.toLowerCase()})`).join(', ');
      return [
        `## ${name}`,
        ...(schema.description === undefined ? [] : [schema.description]),
        `\`\`\`ts\n${typeText(schema).trim()}\n\`\`\``,
        ...(links === '' ? [] : [`Types: ${links}.`]),
        '',
      ].join('\n\n');
    });
  return `# Types

The types with names that [procedures](/reference/procedures) take and answer. Answers may get more fields in later
versions.

${sections.join('\n')}`;
}
