-- First of all: what the extension cannot do without, said in words of its own.
do $$
declare
  installed text := (select extversion from pg_catalog.pg_extension where extname = 'pgmq');
begin
  if installed is null or pg_catalog.string_to_array(pg_catalog.substring(installed, '^[0-9.]*[0-9]'), '.')::integer[]
                          < array[1, 11, 1] then
    raise exception using
      errcode = '0A000',
      message = pg_catalog.format('hfs_lite needs pgmq 1.11.1 or newer, and %s is installed',
                                  coalesce('pgmq ' || installed, 'no pgmq')),
      detail = 'Before 1.11.1, the bindings of topics to queues were not part of a dump.',
      hint = 'Install the files of a newer pgmq on the server (they come with its crate, its packages and its repository), '
             'then ALTER EXTENSION pgmq UPDATE, and create hfs_lite again.';
  end if;
  if pg_catalog.getdatabaseencoding() <> 'UTF8' then
    raise exception using
      errcode = '0A000',
      message = pg_catalog.format('hfs_lite needs a database of encoding UTF8, and this one has %s',
                                  pg_catalog.getdatabaseencoding()),
      detail = 'Canonical JSON and the lengths of names are defined on Unicode characters.',
      hint = 'Create the database with ENCODING ''UTF8'' TEMPLATE template0.';
  end if;
end $$;
