import { ActionIcon, CopyButton, Group } from '@mantine/core';
import { Tip } from '../tip.tsx';
import { IconCheck, IconCopy } from '@tabler/icons-react';
import { Mono } from './mono.tsx';

const SHORT_LENGTH = 8;

/** An id with a button that copies it; `isShort` shows its beginning. */
export function CopyableId({
  id,
  label,
  isShort = false,
}: {
  readonly id: string;
  /** What kind of id it is, for the button's name: `lease id`. */
  readonly label: string;
  readonly isShort?: boolean;
}) {
  return (
    <Group gap={2} wrap="nowrap" component="span" display="inline-flex">
      <Mono title={id}>{isShort ? id.slice(0, SHORT_LENGTH) : id}</Mono>
      <CopyButton value={id}>
        {({ copied, copy }) => (
          <Tip label={copied ? 'Copied' : `Copy the ${label}`}>
            <ActionIcon size="xs" onClick={copy} aria-label={`Copy the ${label}`}>
              {copied ? <IconCheck size={12} /> : <IconCopy size={12} />}
            </ActionIcon>
          </Tip>
        )}
      </CopyButton>
    </Group>
  );
}
