import {
  IconActivity,
  IconBox,
  IconHandOff,
  IconHistory,
  IconKey,
  IconLayoutDashboard,
  IconLockAccess,
  IconRoute,
  IconServer,
  IconSettings,
  IconStack2,
  IconUsers,
  type Icon,
} from '@tabler/icons-react';
import { routes } from '~/lib/routes.ts';

export interface NavItem {
  readonly label: string;
  /** After `g` it leads there. */
  readonly key: string;
  readonly href: string;
  readonly icon: Icon;
}

export const NAV_GROUPS: readonly { readonly label: string; readonly items: readonly NavItem[] }[] =
  [
    {
      label: 'Now',
      items: [
        { label: 'Overview', key: 'o', href: routes.overview, icon: IconLayoutDashboard },
        { label: 'Keys', key: 'k', href: routes.keys(), icon: IconKey },
        { label: 'Leases', key: 'l', href: routes.leases(), icon: IconStack2 },
        { label: 'Environments', key: 'e', href: routes.environments(), icon: IconLockAccess },
        { label: 'Reservations', key: 'r', href: routes.reservations(), icon: IconRoute },
      ],
    },
    {
      label: 'Fleet',
      items: [
        { label: 'Drones', key: 'd', href: routes.drones(), icon: IconServer },
        { label: 'Backends', key: 'b', href: routes.backends(), icon: IconBox },
      ],
    },
    {
      label: 'Record',
      items: [
        { label: 'Events', key: 'v', href: routes.events(), icon: IconActivity },
        { label: 'Refusals', key: 'f', href: routes.refusals(), icon: IconHandOff },
        { label: 'Audit', key: 'a', href: routes.audit(), icon: IconHistory },
        { label: 'Access', key: 's', href: routes.access(), icon: IconUsers },
        { label: 'Configuration', key: 'c', href: routes.configuration, icon: IconSettings },
      ],
    },
  ];

/** Whether a page is an item's own, or below it. */
export function isWithin(pathname: string, { href }: NavItem): boolean {
  return pathname === href || (href !== routes.overview && pathname.startsWith(`${href}/`));
}
