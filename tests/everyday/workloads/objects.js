// Objects, strings and buffers, enough for a few collections.
const kept = [];
for (let i = 0; i < 60000; i++) kept.push({ number: i, text: 'x'.repeat(i % 100) });
const buffers = [];
for (let i = 0; i < 100; i++) buffers.push(Buffer.alloc(10000, i));
console.log(kept.length, kept.reduce((sum, one) => sum + one.text.length, 0), Buffer.concat(buffers).length);
