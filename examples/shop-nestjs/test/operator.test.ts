import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import { createServer, get } from 'node:http';
import { createRequire } from 'node:module';
import { after, afterEach, test } from 'node:test';
import { chromium, type Page } from 'playwright-core';
import { eventually, freePort, ownShop } from './support.js';

const shop = await ownShop();
await shop.start('api operator');
const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ],
});
after(() => browser.close());

const opened: { page: Page; complaints: string[] }[] = [];
afterEach(async () => {
  const complaints = opened.flatMap((one) => one.complaints);
  await Promise.all(opened.splice(0).map(({ page }) => page.context().close()));
  assert.deepEqual(complaints, [], 'the browser had nothing to complain about');
});

/** The operator's page in a browser of its own. */
async function open(options: Parameters<typeof browser.newContext>[0] = {}): Promise<Page> {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(15_000);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(String(error)));
  opened.push({ page, complaints });
  await page.goto(shop.operatorUrl);
  return page;
}

const send = (payload: object) =>
  shop.sql(`select * from event_bus_send('e', 'order.placed', $1, null)`, [JSON.stringify(payload)]);
const consumers = () => shop.start('consumers', { MAX_ATTEMPTS: '1' });

test('an empty shop says so, and that all is well', async () => {
  const page = await open();
  assert.equal(await page.title(), 'Shop operations');
  await page.getByText('All is well').waitFor();
  for (const text of ['No dead letters.', 'No jobs yet.', 'Nothing was written yet.', 'No minute was reported yet.']) {
    await page.getByText(text).waitFor();
  }
});

test('the way of a dead letter: told to fail, buried, seen, let work, requeued, handled', async () => {
  const page = await open();
  await page.getByRole('button', { name: 'Make it fail: mailer' }).click();
  await page.getByText('The consumer fails from now on.').waitFor();
  await consumers();
  const orderId = await shop.order();

  // It comes up by itself.
  const letter = page.getByRole('listitem').filter({ hasText: 'mailer was told to fail' });
  await letter.waitFor();
  assert.equal(await page.title(), '(1) Shop operations');
  await page.getByRole('link', { name: '1 dead letter' }).waitFor();
  await letter.getByText('Message', { exact: true }).click();
  assert.match(await letter.locator('pre').innerText(), new RegExp(orderId));

  await page.getByRole('button', { name: 'Let it work: mailer' }).click();
  await page.getByText('The consumer works again.').waitFor();
  await page.getByRole('button', { name: /^Requeue message \d+ of order.placed__mailer$/ }).click();
  await page.getByText('The message is back in its queue').waitFor();
  await eventually(
    'a mail is written',
    async () => (await shop.sql('select from shop.mails where order_id = $1', [orderId]))[0],
  );
  await page.getByText('No dead letters.').waitFor();
  await page.getByText('All is well').waitFor();
});

test('it works without JavaScript', async () => {
  await shop.sql(`update shop.consumer_switches set failing = consumer = 'mailer'`);
  await consumers();
  const orderId = await shop.order();
  await eventually(
    'it is buried',
    async () => (await shop.sql(`select from event_bus_dead_letters('order.placed__mailer')`))[0],
  );
  const page = await open({ javaScriptEnabled: false });
  await page.getByRole('button', { name: 'Let it work: mailer' }).click();
  await page.getByRole('button', { name: /^Requeue/ }).click();
  await page.getByText('The message is back in its queue').waitFor();
  await eventually(
    'a mail is written',
    async () => (await shop.sql('select from shop.mails where order_id = $1', [orderId]))[0],
  );
  assert.equal(
    await page.locator('meta[http-equiv=refresh]').getAttribute('content'),
    '10; url=/',
    'it is loaded anew by itself',
  );
});

test('a refresh swallows no click, closes nothing, and keeps the focus', async () => {
  await shop.sql(`update shop.consumer_switches set failing = consumer = 'mailer'`);
  await consumers();
  await shop.order();
  const page = await open();
  await page.clock.install();
  await page.reload();
  const section = page.locator('#dead-letters');
  const button = page.getByRole('button', { name: /^Requeue/ });
  await eventually('the dead letter is shown', async () => {
    await page.clock.runFor(2_000);
    return (await button.count()) === 1;
  });
  await section.locator('summary').click();
  await button.focus();
  const id = await button.getAttribute('id');

  // Its ages go on, so it is replaced.
  const before = await button.elementHandle();
  await eventually('the section was replaced', async () => {
    await page.clock.runFor(2_000);
    return !(await before!.evaluate((element) => element.isConnected));
  });
  assert.equal(await page.evaluate(() => document.activeElement?.id), id);
  assert.equal(await section.locator('details').getAttribute('open'), '');

  // Pressed, and held while many a refresh is due.
  await button.hover();
  await page.mouse.down();
  const pressed = await button.elementHandle();
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  await page.clock.runFor(60_000);
  assert(await pressed!.evaluate((element) => element.isConnected));
  assert.deepEqual(asked, []);
  await page.mouse.up();
  await page.getByText('The message is back in its queue').waitFor();
});

test('where the shop does not answer, the page says so, and goes on when it does', async () => {
  const port = String(await freePort());
  const first = await shop.start('operator', { OPERATOR_PORT: port });
  const page = await open();
  // It complains of what it cannot reach, which is what this is about.
  opened.at(-1)!.complaints = [];
  await page.clock.install();
  await page.goto(`http://127.0.0.1:${port}/`);
  const lost = page.getByText('The shop does not answer.');
  await first.kill();
  await eventually('the page says so', async () => {
    await page.clock.runFor(2_000);
    return lost.isVisible();
  });
  await shop.start('operator', { OPERATOR_PORT: port });
  await eventually('it is gone', async () => {
    await page.clock.runFor(2_000);
    return !(await lost.isVisible());
  });
  // The forms are those of the new process.
  await page
    .getByRole('button', { name: 'Let it work: mailer' })
    .or(page.getByRole('button', { name: 'Make it fail: mailer' }))
    .click();
  await page.getByText(/^The consumer (fails|works)/).waitFor();
  opened.at(-1)!.complaints = [];
});

/** Something of everything, with HTML in whatever came from outside. */
async function evil(): Promise<void> {
  const html = `</code><img src="x" onerror="alert(1)"><script>alert(1)</script>&"'`;
  await send({ dedupeKey: html, orderId: html });
  const [{ msg_id }] = await shop.sql(`select max(msg_id) as msg_id from pgmq."q_order.placed__statistics"`);
  await shop.sql('select * from event_bus_bury($1, $2, $3)', ['order.placed__statistics', msg_id, html]);
  await shop.sql('select queue_write($1, $2, null, $3)', [html, JSON.stringify({ note: html }), html]);
  for (const state of ['failed', 'lease ended', 'waiting', 'done']) {
    const [{ id }] = await shop.sql(
      `insert into shop.shipments (order_id, total_cents) values (gen_random_uuid(), 1) returning order_id as id`,
    );
    if (state === 'waiting') continue;
    const [job] = await shop.sql(
      `select * from job_claim('fulfilment', 'fulfilment:' || $1, $2, '2026-01-02Z', '{}', '2026-01-01Z')`,
      [id, html],
    );
    if (state === 'failed')
      await shop.sql('select * from job_fail($1, $2, $3, null)', [job.id, job.fencing_token, html]);
    if (state === 'done') await shop.sql('select * from job_complete($1, $2, null)', [job.id, job.fencing_token]);
  }
  await shop.sql(`insert into shop.minute_reports values ('2026-01-01 09:00Z', 3, 4500, $1) on conflict do nothing`, [
    html,
  ]);
  await shop.sql('select pgmq.create($1)', ['unrecorded']);
  await shop.sql('select pgmq.bind_topic($1, $2)', ['order.lost', 'unrecorded']);
}

test('what came from outside is text, and never HTML', async () => {
  await evil();
  const page = await open();
  page.on('dialog', (dialog) => void dialog.dismiss().then(() => assert.fail('a script of somebody else’s ran')));
  assert.equal(await page.locator('img').count(), 1, 'the icon');
  assert.deepEqual(await page.locator('script').evaluateAll((all) => all.map((one) => one.getAttribute('src'))), [
    '/live.js',
  ]);
  const shown = '</code><img src="x" onerror="alert(1)"><script>alert(1)</script>&"\'';
  for (const section of ['dead-letters', 'jobs', 'outbox', 'ticks']) {
    assert((await page.locator(`#${section}`).innerText()).includes(shown), section);
  }
});

for (const colorScheme of ['light', 'dark'] as const) {
  for (const width of [1280, 375]) {
    test(`it is accessible: ${colorScheme}, ${width} pixels wide`, async () => {
      const page = await open({ colorScheme, viewport: { width, height: 900 } });
      await page.locator('summary').first().click();
      await page.evaluate(readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'));
      const { violations, passes } = await page.evaluate(() => (globalThis as any).axe.run());
      assert.deepEqual(
        violations.map(({ id, nodes }: any) => [id, nodes.map((node: any) => node.html)]),
        [],
      );
      const passed = passes.map(({ id }: any) => id);
      for (const rule of ['color-contrast', 'button-name', 'html-has-lang']) assert(passed.includes(rule), rule);
      assert.equal(
        await page.evaluate(() => document.documentElement.scrollWidth > innerWidth),
        false,
        'it is not wider than the screen',
      );
    });
  }
}

test('nothing is done from elsewhere: no token, another token, another page, another name', async () => {
  await shop.sql(`update shop.consumer_switches set failing = false`);
  const page = await open();
  const token = await page.locator('input[name=token]').first().inputValue();
  const cookie = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
  const post = (headers: Record<string, string>, token?: string) =>
    fetch(`${shop.operatorUrl}tell`, {
      method: 'POST',
      redirect: 'manual',
      headers: { 'Content-Type': 'application/x-www-form-urlencoded', ...headers },
      body: new URLSearchParams({ consumer: 'mailer', failing: 'true', ...(token && { token }) }),
    }).then(({ status }) => status);
  const failing = async () =>
    (await shop.sql(`select failing from shop.consumer_switches where consumer = 'mailer'`))[0].failing;

  assert.equal(await post({}), 403);
  assert.equal(await post({ Cookie: cookie }), 403);
  assert.equal(await post({}, token), 403);
  assert.equal(
    await post(
      { Cookie: cookie },
      token.replace(/^./, (c) => (c === '0' ? '1' : '0')),
    ),
    403,
  );
  assert.equal(await post({ Cookie: cookie.replace(/.$/, (c) => (c === '0' ? '1' : '0')) }, token), 403);
  assert.equal(await post({ Cookie: cookie, 'Sec-Fetch-Site': 'cross-site' }, token), 403);

  // A page of somebody else's, in the operator's own browser.
  const elsewhere = createServer((_, response) => {
    response.setHeader('Content-Type', 'text/html');
    response.end(`<form method="post" action="${shop.operatorUrl}tell"><input name="consumer" value="mailer">
      <input name="failing" value="true"><input name="token" value="${token}"><button>Win</button></form>`);
  }).listen(0, '127.0.0.1');
  await once(elsewhere, 'listening');
  const stranger = await page.context().newPage();
  await stranger.goto(`http://localhost:${(elsewhere.address() as { port: number }).port}/`);
  const [response] = await Promise.all([stranger.waitForResponse(/tell$/), stranger.getByRole('button').click()]);
  assert.equal(response.status(), 403);
  elsewhere.close();

  // A name of somebody else's that leads to this machine.
  const status = await new Promise((resolve, reject) =>
    get(shop.operatorUrl, { headers: { Host: 'evil.example' } }, (answer) => resolve(answer.resume().statusCode)).on(
      'error',
      reject,
    ),
  );
  assert.equal(status, 403);
  assert.equal(await failing(), false);

  assert.equal(await post({ Cookie: cookie }, token), 303);
  assert.equal(await failing(), true);
});

test('what is no form of ours is refused', async () => {
  const page = await open();
  const token = await page.locator('input[name=token]').first().inputValue();
  const statuses = await page.evaluate(async (token) => {
    const bodies = [{ queue: 'order.placed__mailer', id: '1; drop' }, { queue: 'order.placed__mailer' }, { id: '1' }];
    const answers = bodies.map((body) =>
      fetch('/requeue', { method: 'POST', body: new URLSearchParams({ ...body, token }) }),
    );
    return (await Promise.all(answers)).map(({ status }) => status);
  }, token);
  assert.deepEqual(statuses, [400, 400, 400]);
  opened.at(-1)!.complaints.splice(0);
});

test('a dead letter that is gone by then is no error', async () => {
  // Without JavaScript, so that the page stays as it was.
  const page = await open({ javaScriptEnabled: false });
  const [{ msg_id }] = await shop.sql(`select * from event_bus_dead_letters('order.placed__statistics')`);
  await shop.sql(`select * from event_bus_requeue('order.placed__statistics', $1)`, [msg_id]);
  await page.getByRole('button', { name: `Requeue message ${msg_id} of order.placed__statistics` }).click();
  await page.getByText('That dead letter was not there any more.').waitFor();
});
