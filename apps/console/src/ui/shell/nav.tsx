import {
  type Icon,
  IconActivity,
  IconAlertTriangle,
  IconBook2,
  IconBox,
  IconBuildingOff,
  IconCircleCheck,
  IconHandOff,
  IconHistory,
  IconKey,
  IconLayoutDashboard,
  IconLockAccess,
  IconPlugConnectedX,
  IconRoute,
  IconServer,
  IconSettings,
  IconStack2,
  IconUsers,
} from '@tabler/icons-react';
import { usePathname, useRouter } from 'next/navigation';
import { type Datacenter, type GivenUpDatacenter, useDatacenters } from '~/lib/datacenters.ts';
import { absolute } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import { Link, Wordmark } from '~/ui/text.tsx';
import { useShortcut } from '~/ui/use-shortcut.ts';
import classes from './shell.module.css';

function NavLink({
  item,
  isHere,
  onNavigate,
}: {
  readonly item: NavItem;
  readonly isHere: boolean;
  readonly onNavigate: (() => void) | undefined;
}) {
  const router = useRouter();
  useShortcut(`g ${item.key}`, `Go to ${item.label}`, () => router.push(item.href));
  return (
    <Link
      href={item.href}
      className={classes['link']}
      aria-current={isHere ? 'page' : undefined}
      {...(onNavigate === undefined ? {} : { onClick: onNavigate })}
    >
      <item.icon size={16} stroke={1.7} aria-hidden />
      {item.label}
    </Link>
  );
}

/** The links to all pages. */
export function Nav({ onNavigate }: { readonly onNavigate?: () => void }) {
  const pathname = usePathname();
  return (
    <nav className={classes['nav']} aria-label="Pages">
      <Wordmark />
      {NAV_GROUPS.map((group) => (
        <div key={group.label} className={classes['group']}>
          <span className={classes['group-label']}>{group.label}</span>
          {group.items.map((item) => (
            <NavLink
              key={item.href}
              item={item}
              isHere={isWithin(pathname, item)}
              onNavigate={onNavigate}
            />
          ))}
        </div>
      ))}
      {/* No page of Next: it is loaded as a whole. */}
      <a
        href={routes.documentation}
        className={`${classes['link'] ?? ''} ${classes['documentation'] ?? ''}`}
      >
        <IconBook2 size={16} stroke={1.7} aria-hidden />
        Documentation
      </a>
      <div className={classes['nav-foot']}>
        <DatacenterStates />
      </div>
    </nav>
  );
}

/** The datacenters and whether each can be reached; if there is only one, its name. */
function DatacenterStates() {
  const { here, items, isSeveral, store, givenUp } = useDatacenters();
  if (!isSeveral) {
    return (
      <>
        datacenter <span className="mono">{here}</span>
      </>
    );
  }
  return (
    <>
      <span id="datacenters">Datacenters</span>
      <ul className={classes['list']} aria-labelledby="datacenters">
        {items
          .filter(({ name }) => givenUp.every(({ datacenter }) => datacenter !== name))
          .map((datacenter) => (
            <State key={datacenter.name} datacenter={datacenter} />
          ))}
        {givenUp.map((lost) => (
          <li key={lost.datacenter} className={classes['away']} title={givenUpText(lost)}>
            <IconBuildingOff size={13} aria-hidden />
            <span className="mono">{lost.datacenter}</span> given up
            <span hidden>{givenUpText(lost)}</span>
          </li>
        ))}
        {store?.isReachable === false ? (
          <li className={classes['away']} title={sinceText(store.since)}>
            <IconAlertTriangle size={13} aria-hidden />
            the reservation store cannot be reached
          </li>
        ) : null}
      </ul>
    </>
  );
}

function State({ datacenter }: { readonly datacenter: Datacenter }) {
  const { name, isLocal, isReachable, since, code, roundTripMs } = datacenter;
  if (!isReachable) {
    return (
      <li className={classes['away']} title={sinceText(since)}>
        <IconPlugConnectedX size={13} aria-hidden />
        <span className="mono">{name}</span>{' '}
        {code === 'peer.refused' ? 'refuses this datacenter’s credentials' : 'unreachable'}
      </li>
    );
  }
  const trip = roundTripMs === null ? 'reachable' : tripText(roundTripMs);
  return (
    <li>
      <IconCircleCheck size={13} aria-hidden />
      <span className="mono">{name}</span> {isLocal ? 'this one' : trip}
    </li>
  );
}

function givenUpText({ declaredAt, declaredBy, reason, opened }: GivenUpDatacenter): string {
  const keys = opened === null ? 'its keys wait' : 'its keys get other homes';
  return `by ${declaredBy} at ${absolute(declaredAt)}: ${reason}; ${keys}`;
}

function tripText(roundTripMs: number): string {
  return roundTripMs < 1 ? '< 1 ms' : `${String(Math.round(roundTripMs))} ms`;
}

function sinceText(since: string | null): string {
  return since === null ? 'not reached yet' : `since ${absolute(since)}`;
}

interface NavItem {
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
function isWithin(pathname: string, { href }: NavItem): boolean {
  return pathname === href || (href !== routes.overview && pathname.startsWith(`${href}/`));
}
