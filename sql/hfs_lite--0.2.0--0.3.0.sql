-- From 0.2.0 to 0.3.0.

-- What event_bus_send finds a topic's bindings by.
create index hfs_lite_topic_heads_idx on pgmq.topic_bindings (
  (pg_catalog.regexp_replace(pg_catalog.translate(pattern, '#', '*'), '[*].*', '*') collate "C"));
alter index pgmq.hfs_lite_topic_heads_idx depends on extension hfs_lite;
