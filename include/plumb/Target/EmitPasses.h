//===- EmitPasses.h - The emitters as passes, for tests and experiments -*- C++ -*-===//

#ifndef PLUMB_TARGET_EMITPASSES_H
#define PLUMB_TARGET_EMITPASSES_H

namespace plumb {

/// Makes `emit-program` and `emit-plan-file` available: they write to standard output and leave the module
/// alone.
void registerEmitPasses();

} // namespace plumb

#endif // PLUMB_TARGET_EMITPASSES_H
