import { Modal, Stack } from '@mantine/core';
import type { Outputs } from '~/lib/api/api.ts';
import { ROLE_LABELS } from '~/lib/auth.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { Facts, PlainTable } from '~/ui/page.tsx';
import { ErrorState } from '~/ui/states.tsx';
import { Mono } from '~/ui/text.tsx';
import type { Token } from './token-state.ts';

type TokenDetails = Outputs['tokens']['get'];

/** What a token is bound to, and how much of its limits it uses. */
export function TokenDetailsDialog({
  token,
  onClose,
}: {
  readonly token: Token | null;
  readonly onClose: () => void;
}) {
  return (
    <Modal
      opened={token !== null}
      onClose={onClose}
      size="lg"
      title={token === null ? '' : `Token ${token.name}`}
    >
      {token === null ? null : <TokenDetails tokenId={token.tokenId} />}
    </Modal>
  );
}

function TokenDetails({ tokenId }: { readonly tokenId: string }) {
  const read = useLiveQuery('tokens', 'get', { tokenId });
  if (read.data === undefined) return <ErrorState read={read} what="this token" />;
  const { token, fairUse } = read.data;
  return (
    <Stack gap="sm">
      <Facts
        items={{
          Role: ROLE_LABELS[token.role],
          Id: <Mono>{token.tokenId}</Mono>,
          Namespaces: token.droneId === null ? listOf(token.namespaces) : null,
          Drone: token.droneId,
          Programs: listOf(token.programs),
          Backends: token.droneId === null ? null : (token.capacity ?? 'any number'),
          Addresses: token.droneId === null ? null : listOf(token.addresses),
        }}
      />
      <PlainTable
        label="Fair-use limits"
        heads={[
          { text: 'Limit' },
          { text: 'Used', align: 'end' },
          { text: 'At most', align: 'end' },
          { text: 'Of' },
        ]}
      >
        {fairUse.map((use) => (
          <LimitRow key={use.limit} {...use} />
        ))}
      </PlainTable>
    </Stack>
  );
}

function LimitRow({ limit, max, used, isOwn }: TokenDetails['fairUse'][number]) {
  return (
    <tr>
      <td>
        <Mono>{limit}</Mono>
      </td>
      <td data-align="end">{used === null ? '–' : used.toLocaleString('en')}</td>
      <td data-align="end">{max.toLocaleString('en')}</td>
      <td>{isOwn ? 'the token' : 'its role'}</td>
    </tr>
  );
}

function listOf(list: readonly string[] | null) {
  return list === null ? 'any' : <Mono>{list.join(', ')}</Mono>;
}
