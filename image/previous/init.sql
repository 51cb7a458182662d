-- What a volume of the previous release holds: two databases with the extension, and a template1 with pgmq.
set client_min_messages = warning;
create role app_be login;
create role ops login;
create role relay login;
create database office;
\connect template1
create extension pgmq version '1.11.0';
alter extension pgmq update to '1.11.1';
\connect office
create extension pgmq version '1.11.0';
alter extension pgmq update to '1.11.1';
create extension hfs_lite version '0.1.0';
\connect shop
create extension pgmq version '1.11.0';
alter extension pgmq update to '1.11.1';
create extension vector;
create extension hfs_lite version '0.1.0';
select public.hfs_lite_grant('ops', 'operator');
-- A role that somebody let in by hand, to one function only.
grant execute on function public.queue_waiting(integer) to relay;
