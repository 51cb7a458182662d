import { Html, html } from './html.js';
import type { DeadLetter, Job, Metric, OutboxRow, Report, State } from './operator.service.js';

/** What has just been done, said on the page that follows. */
const notes = {
  requeued: 'The message is back in its queue, with a fresh budget of attempts.',
  gone: 'That dead letter was not there any more.',
  failing: 'The consumer fails from now on. Its messages end as dead letters.',
  working: 'The consumer works again. Requeue its dead letters to have them handled.',
} as const;
export type Note = keyof typeof notes;
export const isNote = (value: unknown): value is Note => typeof value === 'string' && Object.hasOwn(notes, value);

type Tone = 'good' | 'busy' | 'warn' | 'bad' | 'quiet';

export function page(state: State, token: string, note?: Note): Html {
  const measure = measures(state.metrics);
  const concerns = concernsOf(state, measure);
  const title = html`${concerns.length > 0 && `(${concerns.length}) `}Shop operations`;
  return document(
    title,
    html`<header class="top">
      <img src="/icon.svg" alt="" width="32" height="32">
      <h1>Shop operations</h1>
      <p class="quiet">Database <strong>${state.database}</strong></p>
      <p class="quiet" id="freshness"></p>
    </header>
    <main>
      <p id="lost" role="status"></p>
      ${note && html`<p class="note" role="status">${notes[note]}</p>`}
      <section id="overview" data-live aria-label="Overview">
        ${headline(concerns)}
        ${tiles(measure)}
      </section>
      ${problems(state)}
      ${deadLetters(state.deadLetters, token)}
      ${consumers(state, measure, token)}
      ${jobs(state.jobs)}
      ${outbox(state.outbox)}
      ${reports(state.reports)}
    </main>`,
    html`<script src="/live.js" type="module"></script>
    <noscript><meta http-equiv="refresh" content="10; url=/"></noscript>`,
  );
}

/** A page that says one thing. */
export const notice = (text: string): Html =>
  document(
    html`Shop operations`,
    html`<header class="top"><img src="/icon.svg" alt="" width="32" height="32"><h1>Shop operations</h1></header>
    <main>
      <p class="note">${text}</p>
      <p><a href="/">To the shop’s operations</a></p>
    </main>`,
  );

const document = (title: Html, body: Html, head?: Html): Html =>
  html`<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>${title}</title>
    <link rel="icon" href="/icon.svg" type="image/svg+xml">
    <link rel="stylesheet" href="/style.css">
    ${head}
  </head>
  <body>
    ${body}
  </body>
</html>
`;

// The overview

type Measure = (area: string, metric: string, name?: string) => { value: number; words: string | null };

/** Looks a metric up; without a name, the sum over all of them and the greatest age. */
function measures(metrics: Metric[]): Measure {
  return (area, metric, name) => {
    const found = metrics
      .filter((one) => one.area === area && one.metric === metric && (name === undefined || one.name === name))
      .filter(({ value }) => value !== null)
      .sort((a, b) => b.value! - a.value!);
    return { value: found.reduce((sum, one) => sum + one.value!, 0), words: found[0]?.words ?? null };
  };
}

interface Concern {
  text: string;
  section: string;
}

/** What somebody should look at. */
function concernsOf({ problems }: State, measure: Measure): Concern[] {
  const counted: [number, string, string, string][] = [
    [problems.length, 'problem with the event bus', 'problems with the event bus', 'problems'],
    [measure('event_bus', 'dead').value, 'dead letter', 'dead letters', 'dead-letters'],
    [measure('jobs', 'failed').value, 'failed job', 'failed jobs', 'jobs'],
    [measure('jobs', 'lease_ended').value, 'job whose lease ended', 'jobs whose lease ended', 'jobs'],
    [measure('inbox', 'incomplete').value, 'receipt without an outcome', 'receipts without an outcome', 'overview'],
  ];
  return counted
    .filter(([count]) => count > 0)
    .map(([count, one, many, section]) => ({ text: `${count} ${count === 1 ? one : many}`, section }));
}

function headline(concerns: Concern[]): Html {
  if (concerns.length === 0) return html`<p class="headline good">All is well</p>`;
  const list = concerns.map(({ text, section }) => html`<li><a href="#${section}">${text}</a></li>`);
  return html`<div class="headline warn"><p>Needs a look</p><ul>${list}</ul></div>`;
}

function tiles(measure: Measure): Html {
  const running = measure('jobs', 'running');
  const failed = measure('jobs', 'failed');
  const waiting = measure('queue', 'waiting');
  const visible = measure('event_bus', 'visible');
  const hidden = measure('event_bus', 'in_flight');
  const dead = measure('event_bus', 'dead');
  const incomplete = measure('inbox', 'incomplete');
  const oldest = (area: string, metric: string): string => {
    const { words } = measure(area, metric);
    return words ? `oldest ${words}` : 'none waits';
  };
  return html`<dl class="tiles">
    ${tile('Jobs running', running.value, `${failed.value || 'none'} failed`, failed.value > 0 && 'warn')}
    ${tile('Outbox waiting', waiting.value, oldest('queue', 'oldest_waiting_age'))}
    ${tile('Events waiting', visible.value + hidden.value, oldest('event_bus', 'oldest_age'))}
    ${tile('Dead letters', dead.value, dead.value > 0 ? 'wait for you' : 'none', dead.value > 0 && 'bad')}
    ${tile('Open receipts', incomplete.value, 'without an outcome', incomplete.value > 0 && 'warn')}
  </dl>`;
}

const tile = (label: string, value: number, detail: string, tone: Tone | false = false): Html =>
  html`<div class="tile ${tone}">
      <dt>${label}</dt>
      <dd><strong>${value}</strong> <small>${detail}</small></dd>
    </div>`;

// The sections

interface Section {
  id: string;
  title: string;
  about: string;
  count?: number;
  body: Html;
}

const section = ({ id, title, about, count, body }: Section): Html =>
  html`<section id="${id}" class="card" data-live aria-labelledby="${id}-title">
      <header>
        <h2 id="${id}-title">${title}${!!count && html` <span class="count">${count}</span>`}</h2>
        <p class="quiet">${about}</p>
      </header>
      ${body}
    </section>`;

function problems({ problems }: State): Html {
  if (problems.length === 0) return html`<div id="problems" data-live hidden></div>`;
  return section({
    id: 'problems',
    title: 'Problems of the event bus',
    about: 'What event_bus_check says, in the order in which it is to be mended.',
    count: problems.length,
    body: table(
      'Problems of the event bus',
      ['Problem', 'Topic', 'Queue', long('What mends it')],
      problems.map(({ problem, topic, queue, mend }) => [problem, topic, code(queue), code(mend)]),
    ),
  });
}

function deadLetters(letters: DeadLetter[], token: string): Html {
  return section({
    id: 'dead-letters',
    title: 'Dead letters',
    about: 'Messages that a consumer gave up. Mend the cause, then send them back.',
    count: letters.length,
    body:
      letters.length === 0
        ? empty('No dead letters. What a consumer gives up will stand here, with its reason.')
        : html`<ul class="letters">${letters.map((letter) => deadLetter(letter, token))}</ul>`,
  });
}

function deadLetter({ queue, id, reason, attempts, age, buried, message }: DeadLetter, token: string): Html {
  const name = `${queue}-${id}`;
  const key = (message as { payload?: { dedupeKey?: string } } | null)?.payload?.dedupeKey;
  return html`<li>
      <div>
        <h3>${reason ?? 'No reason was given'}</h3>
        <p class="quiet"><code>${queue}</code> · message ${id}${key && html` · ${short(key)}`}
          · ${attempts} ${attempts === 1 ? 'attempt' : 'attempts'} · sent ${ago(age)} · buried ${ago(buried)}</p>
        <details id="message-${name}">
          <summary>Message</summary>
          <pre tabindex="0" aria-label="Message ${id} of ${queue}">${JSON.stringify(message, null, 2)}</pre>
        </details>
      </div>
      ${button({
        action: '/requeue',
        token,
        id: `requeue-${name}`,
        fields: { queue, id },
        text: 'Requeue',
        label: `Requeue message ${id} of ${queue}`,
        strong: true,
      })}
    </li>`;
}

function consumers({ switches }: State, measure: Measure, token: string): Html {
  const rows = switches.map(({ consumer, failing }): Cell[] => {
    const queue = `order.placed__${consumer}`;
    const dead = measure('event_bus', 'dead', queue).value;
    return [
      html`<strong>${consumer}</strong>`,
      code(queue),
      failing ? badge('told to fail', 'bad') : badge('working', 'good'),
      measure('event_bus', 'visible', queue).value,
      measure('event_bus', 'in_flight', queue).value,
      measure('event_bus', 'oldest_age', queue).words ?? '–',
      dead,
      button({
        action: '/tell',
        token,
        id: `tell-${consumer}`,
        fields: { consumer, failing: String(!failing) },
        text: failing ? 'Let it work' : 'Make it fail',
        label: failing ? `Let it work: ${consumer}` : `Make it fail: ${consumer}`,
        strong: failing,
      }),
    ];
  });
  return section({
    id: 'consumers',
    title: 'Consumers',
    about: 'Who hears of a placed order. Each has a queue of its own.',
    body: table(
      'Consumers',
      ['Consumer', long('Queue'), 'State', number('Visible'), number('In flight'), 'Oldest', number('Dead'), ''],
      rows,
    ),
  });
}

const jobTones: Record<Job['state'], Tone> = {
  waiting: 'quiet',
  running: 'busy',
  'lease ended': 'warn',
  failed: 'bad',
  done: 'good',
};

function jobs(jobs: Job[]): Html {
  const rows = jobs.map(({ key, state, step, token, worker, due, lastWrite, error }): Cell[] => [
    html`${short(key)}${error && html`<br><small class="error">${error}</small>`}`,
    badge(state, jobTones[state]),
    step ?? '–',
    token ?? '–',
    worker ?? '–',
    due ? ago(due) : '–',
    lastWrite ? ago(lastWrite) : '–',
  ]);
  return section({
    id: 'jobs',
    title: 'Jobs',
    about: 'Orders that are to be charged and shipped, and the last ones that were. Each claim has a higher token.',
    body:
      rows.length === 0
        ? empty('No jobs yet. Place an order, and the relay will bring it here.')
        : table(
            'Jobs',
            [long('Job'), 'State', 'Noted step', number('Token'), minor('Worker'), 'Due', 'Last write'],
            rows,
          ),
  });
}

function outbox(outbox: OutboxRow[]): Html {
  const rows = outbox.map(({ queue, state, age, correlationId, payload, id }): Cell[] => [
    short(id),
    queue,
    badge(state, state === 'sent' ? 'good' : 'busy'),
    ago(age),
    correlationId && short(correlationId),
    code(JSON.stringify(payload)),
  ]);
  return section({
    id: 'outbox',
    title: 'Outbox',
    about: 'What left, or is to leave, with the transaction that wrote it. The newest first.',
    body:
      rows.length === 0
        ? empty('Nothing was written yet. Each order writes one row.')
        : table('Outbox', [minor('Row'), 'Queue', 'State', 'Written', minor('Correlation'), long('Payload')], rows),
  });
}

function reports(reports: Report[]): Html {
  const rows = reports.map(({ minute, orders, totalCents, reportedBy }): Cell[] => [
    html`<time datetime="${minute.toISOString()}">${minute.toISOString().slice(11, 16)} UTC</time>`,
    orders,
    (Number(totalCents) / 100).toFixed(2),
    reportedBy,
  ]);
  return section({
    id: 'ticks',
    title: 'Ticks',
    about: 'Each minute is reported once, by one of all instances that woke.',
    body:
      rows.length === 0
        ? empty('No minute was reported yet. The next one will be.')
        : table('Ticks', ['Minute', number('Orders'), number('EUR'), 'Reported by'], rows),
  });
}

// The parts that sections are made of

type Cell = Html | string | number | null;

interface Column {
  name: string;
  kind?: 'number' | 'long' | 'minor';
}
const number = (name: string): Column => ({ name, kind: 'number' });
/** May be broken into lines. */
const long = (name: string): Column => ({ name, kind: 'long' });
/** Is left out where the screen is narrow. */
const minor = (name: string): Column => ({ name, kind: 'minor' });

/**
 * A table. On a narrow screen each row stands as a block with its headings beside the values, which is no table to a
 * browser: hence the roles. On one that is not wide enough it can be scrolled, by the keyboard too. A column without a
 * name is one of buttons.
 */
function table(label: string, headings: (string | Column)[], rows: Cell[][]): Html {
  const columns = headings.map((heading): Column => (typeof heading === 'string' ? { name: heading } : heading));
  const head = columns.map(
    ({ name, kind }) => html`<th role="columnheader" scope="col" class="${kind}">${name || unseen('Action')}</th>`,
  );
  const body = rows.map((row) => {
    const cells = row.map((cell, i) => {
      const { name, kind } = columns[i]!;
      return html`<td role="cell" data-heading="${name}" class="${kind}">${cell}</td>`;
    });
    return html`<tr role="row">${cells}</tr>`;
  });
  return html`<div class="scroll" role="group" aria-label="${label}, as a table" tabindex="0"><table role="table">
        <thead role="rowgroup"><tr role="row">${head}</tr></thead>
        <tbody role="rowgroup">${body}</tbody>
      </table></div>`;
}

interface Button {
  action: string;
  token: string;
  id: string;
  fields: Record<string, string>;
  text: string;
  /** What it is called where one does not see what stands beside it. */
  label: string;
  strong?: boolean;
}

const button = ({ action, token, id, fields, text, label, strong }: Button): Html =>
  html`<form method="post" action="${action}">
        <input type="hidden" name="token" value="${token}">
        ${Object.entries(fields).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}
        <button id="${id}" aria-label="${label}" class="${strong && 'strong'}">${text}</button>
      </form>`;

const badge = (text: string, tone: Tone): Html => html`<span class="badge ${tone}">${text}</span>`;
const unseen = (text: string): Html => html`<span class="unseen">${text}</span>`;
const code = (text: string | null): Html => html`<code>${text ?? '–'}</code>`;
const empty = (text: string): Html => html`<p class="empty">${text}</p>`;

/** An age in the words of hfs_lite_age, as one says it. */
const ago = (age: string): string => (age.startsWith('in ') ? age : `${age} ago`);

/** A key or an id, whose end tells it from others; the whole of it is in the title. */
function short(text: string): Html {
  const [, kind = '', rest = text] = /^(\w+:)?(.*)$/s.exec(text) ?? [];
  return html`<code class="short" title="${text}">${kind}${rest.length > 14 ? `…${rest.slice(-12)}` : rest}</code>`;
}
