// What the exporter gives, against what the database says; and what the dashboard and the alerts ask for, against both.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';

const { SERVER, PSQL, URL, ROOT } = process.env;
assert(SERVER && PSQL && URL && ROOT, 'these tests are started by pgrx-tests/monitoring/run');

const ask = (query) =>
  JSON.parse(execFileSync(PSQL, [URL, '-qXAtc', `select coalesce(json_agg(t), '[]') from (${query}) t`], { encoding: 'utf8' }));
const health = () => ask('select * from public.hfs_lite_health()');

/** Samples of the text format: name, labels and value. */
function samples(text) {
  const found = [];
  for (const line of text.split('\n').filter((line) => line.startsWith('hfs_lite'))) {
    const [, name, labels, value] = line.match(/^([a-z0-9_]+)(?:\{(.*)\})? (\S+)$/) ?? assert.fail(`not a sample: ${line}`);
    const pairs = [...(labels ?? '').matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)].map(([, label, text]) => [label, text]);
    found.push({ name, labels: Object.fromEntries(pairs), value: Number(value) });
  }
  return found;
}

/** The sample that a row of hfs_lite_health is to be found in. */
function place({ area, name, metric, unit }) {
  if (unit === 'seconds') {
    const of = area === 'event_bus' ? 'message' : metric.replace(/^oldest_(.*)_age$/, '$1');
    return { name: 'hfs_lite_oldest_age_seconds', labels: { area, name, of } };
  }
  if (metric === 'dead_tuples') return { name: 'hfs_lite_dead_tuples', labels: { area, name } };
  if (area === 'event_bus') return { name: 'hfs_lite_event_bus_messages', labels: { queue: name, state: metric } };
  return { name: `hfs_lite_${area}_${metric}`, labels: {} };
}
const is = (sample, wanted) =>
  sample.name === wanted.name && Object.entries(wanted.labels).every(([label, text]) => sample.labels[label] === text);

let earlier, given, later;
before(async () => {
  for (let attempt = 1; !given; attempt += 1) {
    earlier = health();
    given = await fetch(SERVER).then((response) => response.text(), (error) => { if (attempt > 100) throw error; });
    if (!given) await setTimeout(100);
  }
  later = health();
  given = samples(given);
});

test('every metric of hfs_lite_health is given with its value, and what is NULL is not given', () => {
  assert(earlier.some((row) => row.value === null), 'the scene has something that there is nothing of');
  assert.equal(earlier.length, later.length);
  for (const [i, row] of earlier.entries()) {
    const found = given.filter((sample) => is(sample, place(row)));
    const what = JSON.stringify(row);
    if (row.value === null) {
      assert.deepEqual(found, [], what);
    } else {
      assert.equal(found.length, 1, what);
      // Ages have grown between the two, and statistics may have counted more.
      const { value } = found[0];
      assert(value >= row.value && value <= later[i].value, `${what}: ${value}`);
      assert.equal(found[0].labels.datname, 'app', what);
    }
  }
});

test('nothing is given that hfs_lite_health and event_bus_check do not say', () => {
  const places = earlier.map(place);
  const known = (sample) =>
    sample.name === 'hfs_lite_event_bus_check_problems' || places.some((wanted) => is(sample, wanted));
  const unknown = given.filter((sample) => !known(sample));
  assert.deepEqual(unknown, []);
  assert(given.every((sample) => Number.isFinite(sample.value)));
});

test('the problems of the event bus are given', () => {
  const problems = ask('select problem, queue, count(*) as problems from public.event_bus_check() group by 1, 2');
  assert(problems.some((row) => row.problem === 'missing_binding'));
  const found = given.filter((sample) => sample.name === 'hfs_lite_event_bus_check_problems');
  assert.equal(found.length, problems.length);
  for (const { problem, queue, problems: value } of problems) {
    const wanted = { name: 'hfs_lite_event_bus_check_problems', labels: { problem, queue } };
    assert(found.some((sample) => is(sample, wanted) && sample.value === value));
  }
});

/** An expression names only metrics and labels that were given, and asks for label values that there can be. */
function check(expression) {
  const selectors = [...expression.matchAll(/(hfs_lite_[a-z_]+)(?:\{([^}]*)\})?/g)];
  assert(selectors.length > 0, expression);
  for (const [, name, matchers] of selectors) {
    let matching = given.filter((sample) => sample.name === name);
    assert(matching.length > 0, `${expression}: ${name} is not given`);
    for (const matcher of (matchers ?? '').split(/,(?=\s*[a-z]+\s*[=!])/).filter(Boolean)) {
      const [, label, operator, text] = matcher.match(/^\s*([a-z]+)(=~|=)"([^"]*)"\s*$/) ?? assert.fail(`${expression}: ${matcher}`);
      assert(matching.every((sample) => label in sample.labels), `${expression}: ${name} has no label ${label}`);
      if (text.startsWith('$')) continue;
      const test = operator === '=' ? (value) => value === text : (value) => new RegExp(`^(${text})$`).test(value);
      matching = matching.filter((sample) => test(sample.labels[label]));
      assert(matching.length > 0, `${expression}: nothing was given that it matches`);
    }
  }
  return selectors.map(([, name]) => name);
}
const labelsOf = (name) => Object.keys(given.find((sample) => sample.name === name).labels);

test('the dashboard is strict JSON, and shows every metric and nothing else', () => {
  const dashboard = JSON.parse(readFileSync(`${ROOT}/monitoring/grafana-dashboard.json`, 'utf8'));
  assert(dashboard.schemaVersion >= 38 && dashboard.uid && dashboard.title);
  const ids = dashboard.panels.map((panel) => panel.id);
  assert.equal(new Set(ids).size, ids.length, 'ids of panels');
  const shown = new Set();
  for (const panel of dashboard.panels.filter((panel) => panel.type !== 'row')) {
    assert(panel.title && panel.description && panel.targets.length > 0, panel.title);
    assert.equal(panel.datasource.uid, '${datasource}', panel.title);
    for (const target of panel.targets) {
      assert.equal(target.datasource.uid, '${datasource}', panel.title);
      const names = check(target.expr);
      names.forEach((name) => shown.add(name));
      for (const [, label] of target.legendFormat.matchAll(/\{\{(.*?)\}\}/g)) {
        assert(labelsOf(names[0]).includes(label), `${panel.title}: ${label}`);
      }
    }
  }
  assert.deepEqual([...shown].sort(), [...new Set(given.map((sample) => sample.name))].sort());
  for (const variable of dashboard.templating.list.filter((variable) => variable.type === 'query')) {
    const [, name, label] = variable.query.query.match(/^label_values\((\w+), (\w+)\)$/);
    assert(labelsOf(name).includes(label), variable.name);
  }
});

test('the alerts ask for what is given', () => {
  const alerts = readFileSync(`${ROOT}/monitoring/alerts.yaml`, 'utf8');
  const rules = alerts.split(/^ +- alert: /m).slice(1);
  assert(rules.length > 0);
  for (const rule of rules) {
    const [name] = check(rule.match(/^ +expr: (.*)$/m)[1]);
    for (const [, label] of rule.matchAll(/\$labels\.(\w+)/g)) assert(labelsOf(name).includes(label), `${rule}: ${label}`);
  }
});
