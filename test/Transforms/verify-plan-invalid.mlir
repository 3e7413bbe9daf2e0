// Each line breaks the plan of verify-plan.mlir in one way.
// RUN: plumb-opt --form-kernels --schedule --assign-streams --plan-memory %S/verify-plan.mlir -o %t

// An action is missing; a send comes before what it sends.
// RUN: sed 's/0B3"/0I3"/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=ACTION
// ACTION: error: {{.*}}0W3
// RUN: sed 's/0F0,0SEND_F0,/0SEND_F0,0F0,/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: error: {{.*}}SEND_F0

// The ends of a channel disagree.
// RUN: sed 's/ccl.recv from 0 on @forward_0_1/ccl.recv from 0 on @backward_1_0/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=CHANNEL
// CHANNEL: module down, model.py:12: 'ccl.send' of stage 0 is message 0 of send_forward_to_1, on @forward_0_1; its counterpart is on @backward_1_0
// RUN: sed 's/@forward_0_1 axes \[\]/@forward_0_1 axes ["tp"]/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=MEMBERS
// MEMBERS: joins the pipeline coordinates 0 and 1, but @forward_0_1 is not a communicator of just these

// A wait is missing: the reader for the receive, the collective for the kernel, the send for the maker, the maker for the
// send, the receive for the readers.
// RUN: sed '/%2:2 = plumb.launch/s/plumb.waits = array<i64: [-0-9, ]*>/plumb.waits = array<i64>/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=READER
// READER: module head, model.py:20: 'plumb.launch' (step 1, stage 1, microbatch 0, forward) reads memory of 'ccl.recv' of module head, model.py:20 (step 1, stage 1, microbatch 0, recv_forward_from_0) that another stream
// RUN: sed '/%6 = ccl.all_reduce/s/plumb.waits = array<i64: [-0-9, ]*>/plumb.waits = array<i64>/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=COLLECTIVE
// COLLECTIVE: module down, model.py:12: 'ccl.all_reduce' (step 1, stage 0, microbatch 0, forward) reads memory of 'plumb.launch' {{.*}} an event wait is missing
// RUN: sed '/ccl.send %6/s/plumb.waits = array<i64: [-0-9, ]*>/plumb.waits = array<i64>/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=SEND
// SEND: 'ccl.send' (step 1, stage 0, microbatch 0, send_forward_to_1) reads memory of 'ccl.all_reduce' {{.*}} an event wait is missing
// RUN: sed '/%5 = plumb.launch/s/plumb.waits = array<i64: [-0-9, ]*>/plumb.waits = array<i64>/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=MAKER
// MAKER: 'plumb.launch' (step 1, stage 0, microbatch 2, forward) overwrites memory of {{.*}} that another stream may still be using
// RUN: sed '/ccl.recv from 0/s/plumb.waits = array<i64: [-0-9, ]*>/plumb.waits = array<i64>/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=RECEIVE
// RECEIVE: 'ccl.recv' (step 1, stage 1, microbatch 2, recv_forward_from_0) overwrites memory of {{.*}} that another stream may still be using

// Two values share memory: a slot too few, an offset that is taken, a result over its operand.
// RUN: sed 's/forward_backward_input_backward_weight", stride = 64 : i64, table = array<i64: 0, 1, 0, 1>/x", stride = 64 : i64, table = array<i64: 0, 0, 0, 0>/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=SLOT
// SLOT: module down, model.py:12: 'plumb.launch' (step 1, stage 0, microbatch 0, backward_input) reads memory that 'plumb.launch' of module up, model.py:10 (step 1, stage 0, microbatch 1, forward) has overwritten
// RUN: sed 's/plumb.offset = array<i64: 1664>/plumb.offset = array<i64: 640>/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=OVERLAP
// OVERLAP: 'plumb.launch' (step 1, stage 0, microbatch 0, forward) still reads memory that 'plumb.launch' {{.*}} has overwritten
// RUN: sed 's/plumb.offset = array<i64: 320, 1088>/plumb.offset = array<i64: 320, 320>/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=RESULTS
// RESULTS: makes a result in memory that 'plumb.launch'

// The arena is too small, or too little of it is cleared.
// RUN: sed 's/plumb.arena = array<i64: [0-9]*/plumb.arena = array<i64: 1800/; s/plumb.staging = array<i64: 1856/plumb.staging = array<i64: 1800/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=ARENA
// ARENA: overwrites memory outside the arena of 1800 bytes
// RUN: sed 's/plumb.offset = array<i64: 1664>/plumb.offset = array<i64: 9152>/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=OFFSET
// OFFSET: module up, model.py:10: 'plumb.launch' lies at offset 9152, outside the arena of 2368 bytes
// RUN: sed 's/plumb.cleared = array<i64: 320/plumb.cleared = array<i64: 128/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=CLEAR
// CLEAR: 'plumb.load' (step 1, stage 0, microbatch 0, backward_weight) loads memory that nothing has written

// The inputs of the next step arrive where a kernel writes, where a parameter lies, or partly behind the arena.
// RUN: sed 's/plumb.staging = array<i64: [0-9]*/plumb.staging = array<i64: 640/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=ARRIVAL
// ARRIVAL: the inputs of the next step, 512 bytes at offset 640, share memory with
// RUN: sed 's/plumb.staging = array<i64: [0-9]*/plumb.staging = array<i64: 320/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=PARAMETER
// PARAMETER: parameter @{{.*}} shares memory with another one
// RUN: sed 's/plumb.staging = array<i64: [0-9]*/plumb.staging = array<i64: 2000/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=BEHIND
// BEHIND: the inputs of the next step, 512 bytes at offset 2000, leave the arena of 2368 bytes

// A store without a copy whose value lies elsewhere; an in-place result that does not.
// RUN: sed 's/\(%17 = .*\)plumb.offset = array<i64: 320>/\1plumb.offset = array<i64: 384>/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=PLACE
// PLACE: result 0 does not lie where operand 0 does, which it is to overwrite

// The attributes are missing or make no sense.
// RUN: not plumb-opt --verify-plan %S/verify-plan.mlir 2>&1 | FileCheck %s --check-prefix=NOTHING
// NOTHING: error: there is no plumb.schedule; run the pass schedule first
// RUN: sed 's/table = array<i64: 0, 1, 0, 1>/table = array<i64: 0, 9, 0, 1>/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=TABLE
// TABLE: has a slot class {{.*}}, which needs a name, a non-negative stride, and a table of 4 slots below that number
// RUN: sed 's/{name = "input_0", stride = 128 : i64, table = array<i64: 0, 1, 2, 3>}/{name = "input_0", stride = 128 : i64, table = array<i64: 0, 2, 1, 3>}/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=HOST
// HOST: 'plumb.input' has the slot class 4, but the host finds microbatch m of it 128 * m bytes from the first
// RUN: sed 's/plumb.stream = 1/plumb.stream = 5/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=STREAM
// STREAM: is on stream 5; the streams are 0, that of computation, to 3, and transfers between ranks are not on stream 0
// RUN: sed '/ccl.recv.*@forward_0_1/s/plumb.stream = 2/plumb.stream = 1/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=COMMUNICATOR
// COMMUNICATOR: 'ccl.recv' is on stream 1, another call on @forward_0_1 on stream 2; a communicator belongs to one stream
// RUN: sed 's/plumb.waits = array<i64: 0, -1>/plumb.waits = array<i64: 99, -1>/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=EVENT
// EVENT: has plumb.waits array<i64: 99, -1>, which must be pairs of a first event below 9 and a slot class below 5, or -1 for one event; a group has them at its first op

// A launch is not what its kernel is; it overwrites what the kernel only reads, or does not where the kernel does.
// RUN: sed 's/@k_sgd_4x6(%16/@k_sgd_4(%16/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=KERNEL
// KERNEL: 'plumb.launch' launches @k_sgd_4 as '(tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>'
// RUN: sed 's/@k_sgd_4x6(%16, %15) inplace \[0\]/@k_sgd_4x6(%16, %15) inplace [-1]/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=INPLACE
// INPLACE: 'plumb.launch' does not overwrite operand 0, but @k_sgd_4x6 writes its result 0 there
// RUN: sed 's/@k_sgd_4x6(%16, %15) inplace \[0\]/@k_sgd_4x6(%16, %15) inplace [1]/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=OVER
// OVER: 'plumb.launch' overwrites operand 1 by result 0, but @k_sgd_4x6 does not

// What is sent is still to be summed; it is summed twice; over ranks that hold different parts; over other ranks.
// RUN: sed '/%6 = ccl.all_reduce/d; s/%5 = plumb.launch @k_einsum_nt/%6 = plumb.launch @k_einsum_nt/; /ccl.send %6/s/plumb.waits = array<i64: 1, 1>/plumb.waits = array<i64: 0, -1>/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: module head, model.py:20: 'ccl.recv' takes what arrives for #plumb.layout<@mesh, [{"microbatch"}, {}]>, but it is #plumb.layout<@mesh, [{"microbatch"}, {}], partial = {"tp" : sum}>
// RUN: sed '/%6 = ccl.all_reduce/{p; s/%6 = ccl.all_reduce %5/%100 = ccl.all_reduce %6/}; s/ccl.send %6 to 1/ccl.send %100 to 1/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: module down, model.py:12: 'ccl.all_reduce' sums over the axis "tp", over which the value is whole already; it would be counted several times
// RUN: sed 's/ccl.communicator @tp .*/&\nccl.communicator @sums axes ["tp"] pipeline []/; s/%15 = plumb.load .*/&\n%100 = ccl.all_reduce %15 on @sums {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}, {}]>], plumb.offset = array<i64: 0>, plumb.phase = #plumb.phase<update>} : (tensor<4x6xf32>) -> tensor<4x6xf32>/; s/k_sgd_4x6(%16, %15)/k_sgd_4x6(%16, %100)/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=PARTS
// PARTS: 'ccl.all_reduce' sums over the axis "tp", over which the value is cut: its ranks hold different parts
// RUN: sed 's/"tp" = 2\]/"tp" = 2, "dp" = 2]/; s/@tp axes \["tp"\]/@tp axes ["dp"]/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=GROUP
// GROUP: 'ccl.all_reduce' sums over the axis "dp", over which the value is whole already

// A copy on another coordinate is never updated; a parameter that has a gradient is not.
// RUN: sed 's/owner 1 holders \[1\]/owner 1 holders [0, 1]/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=COPIES
// COPIES: @head.weight is updated 0 times in a step on pipeline coordinate 0; each copy must be updated once
// RUN: sed '/plumb.store @head.weight/d' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=UPDATE
// UPDATE: @head.weight is updated 0 times in a step on pipeline coordinate 1; each copy must be updated once
// RUN: sed '/plumb.store @loss/d' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=LOSS
// LOSS: error: {{.*}}@loss
