import { Button } from '@mantine/core';
import { IconDownload } from '@tabler/icons-react';
import { LazyMenu } from '~/ui/menus.tsx';
import { exportAddress, type ExportedList } from './export-address.ts';

/** All results of the current query, as a file that the browser loads beside the page. */
export function ExportMenu({
  list,
  input,
  isDisabled = false,
}: {
  readonly list: ExportedList;
  /** The input of the list's procedure; its page is left out. */
  readonly input: object;
  readonly isDisabled?: boolean;
}) {
  const filters = input as Readonly<Record<string, unknown>>;
  return (
    <LazyMenu
      position="bottom-end"
      button={(props) => (
        <Button
          {...props}
          variant="default"
          leftSection={<IconDownload size={14} />}
          disabled={isDisabled}
        >
          Export
        </Button>
      )}
    >
      {(menu) => (
        <>
          <menu.Label>Everything that this search finds</menu.Label>
          {(['csv', 'json'] as const).map((format) => (
            <menu.Item
              key={format}
              component="a"
              href={exportAddress(list, format, filters)}
              download
            >
              {format.toUpperCase()}
            </menu.Item>
          ))}
        </>
      )}
    </LazyMenu>
  );
}
