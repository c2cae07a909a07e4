'use client';

import { Button, Menu } from '@mantine/core';
import { IconDownload } from '@tabler/icons-react';
import { exportAddress, type ExportedList } from '~/lib/export-address.ts';

/** The whole of what the current query finds, as a file: the browser loads it beside the page. */
export function ExportMenu({
  list,
  input,
  isDisabled = false,
}: {
  readonly list: ExportedList;
  /** What the list's procedure is asked; its page is left out. */
  readonly input: object;
  readonly isDisabled?: boolean;
}) {
  const filters = input as Readonly<Record<string, unknown>>;
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <Button variant="default" leftSection={<IconDownload size={14} />} disabled={isDisabled}>
          Export
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>Everything that this search finds</Menu.Label>
        {(['csv', 'json'] as const).map((format) => (
          <Menu.Item
            key={format}
            component="a"
            href={exportAddress(list, format, filters)}
            download
          >
            {format.toUpperCase()}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
