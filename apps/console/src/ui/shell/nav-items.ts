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
  IconStack2,
  IconUsers,
  type Icon,
} from '@tabler/icons-react';
import { routes } from '~/lib/routes.ts';

interface NavItem {
  readonly label: string;
  readonly href: string;
  readonly icon: Icon;
}

export const NAV_GROUPS: readonly { readonly label: string; readonly items: readonly NavItem[] }[] =
  [
    {
      label: 'Now',
      items: [
        { label: 'Overview', href: routes.overview, icon: IconLayoutDashboard },
        { label: 'Keys', href: routes.keys(), icon: IconKey },
        { label: 'Leases', href: routes.leases(), icon: IconStack2 },
        { label: 'Environments', href: routes.environments(), icon: IconLockAccess },
        { label: 'Reservations', href: routes.reservations(), icon: IconRoute },
      ],
    },
    {
      label: 'Fleet',
      items: [
        { label: 'Drones', href: routes.drones(), icon: IconServer },
        { label: 'Backends', href: routes.backends(), icon: IconBox },
      ],
    },
    {
      label: 'Record',
      items: [
        { label: 'Events', href: routes.events(), icon: IconActivity },
        { label: 'Refusals', href: routes.refusals(), icon: IconHandOff },
        { label: 'Audit', href: routes.audit(), icon: IconHistory },
        { label: 'Access', href: routes.access(), icon: IconUsers },
      ],
    },
  ];

/** Whether a page is an item's own, or below it. */
export function isWithin(pathname: string, { href }: NavItem): boolean {
  return pathname === href || (href !== routes.overview && pathname.startsWith(`${href}/`));
}
