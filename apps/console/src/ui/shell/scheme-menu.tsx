import { ActionIcon, useMantineColorScheme } from '@mantine/core';
import { IconCheck, IconDeviceDesktop, IconMoon, IconSun } from '@tabler/icons-react';
import { LazyMenu } from '../menus/lazy-menu.tsx';

const SCHEMES = [
  { value: 'light', label: 'Light', icon: IconSun },
  { value: 'dark', label: 'Dark', icon: IconMoon },
  { value: 'auto', label: 'As the system', icon: IconDeviceDesktop },
] as const;

/** Light, dark, or as the system is set. */
export function SchemeMenu() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <LazyMenu
      position="bottom-end"
      button={(props) => (
        <ActionIcon {...props} size="md" aria-label="Colours">
          <IconSun size={17} />
        </ActionIcon>
      )}
    >
      {(menu) =>
        SCHEMES.map(({ value, label, icon: SchemeIcon }) => (
          <menu.Item
            key={value}
            leftSection={<SchemeIcon size={15} />}
            rightSection={
              colorScheme === value ? <IconCheck size={14} aria-label="chosen" /> : null
            }
            onClick={() => setColorScheme(value)}
          >
            {label}
          </menu.Item>
        ))
      }
    </LazyMenu>
  );
}
