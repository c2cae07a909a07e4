import { Button, Code, CopyButton, Group, Stack, Text, TextInput } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';
import type { ReactNode } from 'react';

/** Something that is never shown again, with the button that copies it. */
export function ShownOnce({
  label,
  value,
  children,
}: {
  readonly label: string;
  readonly value: string;
  readonly children?: ReactNode;
}) {
  return (
    <Stack gap="xs">
      <Group align="flex-end" gap="xs" wrap="nowrap">
        <TextInput
          label={label}
          readOnly
          value={value}
          style={{ flex: 1 }}
          styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
          data-autofocus
          onFocus={(event) => event.currentTarget.select()}
        />
        <Copy value={value} label={`Copy the ${label.toLowerCase()}`} />
      </Group>
      {children}
    </Stack>
  );
}

/** A command that can be run as it is. */
export function Example({ title, command }: { readonly title: string; readonly command: string }) {
  return (
    <div>
      <Group justify="space-between" align="center" mb={4}>
        <Text size="xs" c="dimmed">
          {title}
        </Text>
        <Copy value={command} label="Copy the example" isSmall />
      </Group>
      <Code block tabIndex={0} role="region" aria-label={title} style={{ whiteSpace: 'pre-wrap' }}>
        {command}
      </Code>
    </div>
  );
}

function Copy({
  value,
  label,
  isSmall = false,
}: {
  readonly value: string;
  readonly label: string;
  readonly isSmall?: boolean;
}) {
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <Button
          variant="default"
          size={isSmall ? 'compact-xs' : 'xs'}
          aria-label={label}
          leftSection={copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
          onClick={copy}
        >
          {copied ? 'Copied' : 'Copy'}
        </Button>
      )}
    </CopyButton>
  );
}
