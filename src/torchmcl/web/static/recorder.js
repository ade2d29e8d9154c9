"use strict";
// Interleaves the four channels of a device and hands them over, block by block.
registerProcessor("recorder", class extends AudioWorkletProcessor {
  process([input]) {
    if (!input.length) return true;
    const length = input[0].length, block = new Float32Array(4 * length);
    for (let channel = 0; channel < Math.min(4, input.length); channel++) {
      for (let index = 0; index < length; index++) block[4 * index + channel] = input[channel][index];
    }
    this.port.postMessage(block.buffer, [block.buffer]);
    return true;
  }
});
