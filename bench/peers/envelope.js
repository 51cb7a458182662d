// What is sent as an event, the same by hfs_lite and by pgmq.
export const TOPIC = 'order.placed';
export const envelope = (job) => JSON.stringify({ payload: job });
