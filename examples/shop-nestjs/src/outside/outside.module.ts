import { Module } from '@nestjs/common';
import { Interruptions } from './interruptions.js';
import { Journal } from './journal.js';
import { OutsideController } from './outside.controller.js';

@Module({ controllers: [OutsideController], providers: [Journal, Interruptions] })
export class OutsideModule {}
