import { createSpotlight, Spotlight } from '@mantine/spotlight';
import { useDebouncedValue } from '@mantine/hooks';
import { IconSearch } from '@tabler/icons-react';
import { useRouter } from 'next/navigation';
import { useEffect, useState } from 'react';
import { usePaletteActs } from './use-palette-acts.tsx';
import { useFoundResources } from './use-found-resources.ts';

const [store, spotlight] = createSpotlight();
const TYPING_MS = 150;

/** Any page, any act of the console itself, and every resource or reservation by how its name begins. */
export function PaletteDialog({ requests }: { readonly requests: number }) {
  const router = useRouter();
  const [query, setQuery] = useState('');
  const [searched] = useDebouncedValue(query.trim(), TYPING_MS);
  useEffect(() => spotlight.open(), [requests]);
  const acts = usePaletteActs();
  const wanted = query.trim().toLowerCase();
  const shownActs = acts.filter(({ label }) => label.toLowerCase().includes(wanted));
  const found = useFoundResources(searched);
  const isNothing = shownActs.length === 0 && found.resources.length === 0 && !found.isSearching;
  return (
    <Spotlight.Root
      store={store}
      shortcut={null}
      query={query}
      onQueryChange={setQuery}
      scrollable
      attributes={{ content: { 'aria-label': 'Command palette' } }}
    >
      <Spotlight.Search
        placeholder="A key, a lease, an environment, a page, an action"
        aria-label="Go to"
        leftSection={<IconSearch size={16} aria-hidden />}
      />
      <Spotlight.ActionsList>
        {found.resources.length === 0 ? null : (
          <Spotlight.ActionsGroup label="Resources">
            {found.resources.map(({ id, label, description, href }) => (
              <Spotlight.Action
                key={id}
                label={label}
                description={description}
                onClick={() => router.push(href)}
              />
            ))}
          </Spotlight.ActionsGroup>
        )}
        {shownActs.length === 0 ? null : (
          <Spotlight.ActionsGroup label="Console">
            {shownActs.map(({ label, icon: ActIcon, run }) => (
              <Spotlight.Action
                key={label}
                label={label}
                leftSection={<ActIcon size={16} aria-hidden />}
                onClick={run}
              />
            ))}
          </Spotlight.ActionsGroup>
        )}
        {isNothing ? <Spotlight.Empty>Nothing has that name.</Spotlight.Empty> : null}
      </Spotlight.ActionsList>
    </Spotlight.Root>
  );
}
