//===- Registration.h - The dialects that Plumb's tools know ----*- C++ -*-===//
#ifndef PLUMB_DIALECT_REGISTRATION_H
#define PLUMB_DIALECT_REGISTRATION_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace plumb {

/// Registers nn, plumb, ccl and the upstream dialects that the passes build.
void registerDialects(mlir::DialectRegistry &registry);

} // namespace plumb

#endif // PLUMB_DIALECT_REGISTRATION_H
