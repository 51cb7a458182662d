import { Module } from '@nestjs/common';
import { DatabaseModule } from '../database/database.module.js';
import { Relay } from './relay.js';
import { Transport } from './transport.js';

@Module({
  imports: [DatabaseModule],
  providers: [Relay, Transport],
})
export class RelayModule {}
