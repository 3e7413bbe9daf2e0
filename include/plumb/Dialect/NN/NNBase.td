//===- NNBase.td - The nn dialect ------------------------------------------===//

#ifndef PLUMB_DIALECT_NN_NNBASE
#define PLUMB_DIALECT_NN_NNBASE

include "mlir/IR/OpBase.td"
include "mlir/IR/BuiltinTypes.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "plumb/Dialect/NN/NNInterfaces.td"

def NN_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::plumb::nn";
  // What the ops lower to.
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
  let summary = "What is computed: tensor operations at the level a model author thinks in";
  let description = [{
    Ops of `nn` are pure functions of ranked tensors with static shapes. Each implements `TensorOpInterface`: its
    sharding rule, its form on local shards, its vector-Jacobian product and its lowering to linalg. Many ATen
    operators decompose into few `nn` ops at import; means are sums times one over the global count.
  }];
}

def NN_Tensor : StaticShapeTensorOf<[AnyFloat, I64, I32, I1]>;
def NN_NumberTensor : StaticShapeTensorOf<[AnyFloat, I64, I32]>;
def NN_FloatTensor : StaticShapeTensorOf<[AnyFloat]>;
def NN_IndexTensor : StaticShapeTensorOf<[I64, I32]>;
def NN_BoolTensor : StaticShapeTensorOf<[I1]>;

// The result is the operand's row-major buffer under another shape: it needs no buffer and no kernel.
def NN_Reinterprets : NativeOpTrait<"Reinterprets"> { let cppNamespace = "::plumb::nn"; }

// The derivative is zero: no gradient passes.
def NN_Detaches : NativeOpTrait<"Detaches"> { let cppNamespace = "::plumb::nn"; }

def NN_Indexes : DeclareOpInterfaceMethods<NN_IndexingOpInterface>;

defvar NN_Methods = ["getShardingRule", "localize", "backward", "expand", "lower"];

// No attribute of an nn op holds the size of a dim that may be sharded (the sharding rule keeps such dims whole), so
// one body of `localize` serves all. `definitions` are further method bodies shared by a class of ops. An op with
// a factor that can be expanded defines `expand`.
class NN_Op<string mnemonic, list<Trait> traits = [], string definitions = "", bit isExpandable = 0>
    : Op<NN_Dialect, mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<NN_TensorOpInterface, NN_Methods>], traits)> {
  let extraClassDefinition = [{
    ::llvm::SmallVector<::mlir::Value> $cppClass::localize(::mlir::OpBuilder &builder, ::mlir::ValueRange operands,
                                                           ::mlir::TypeRange localTypes) {
      return rebuild(*this, builder, operands, localTypes);
    }
  }] # !if(isExpandable, "", [{
    ::llvm::SmallVector<::mlir::Value> $cppClass::expand(::mlir::OpBuilder &, int, int64_t) {
      llvm_unreachable("no factor of this op can be expanded");
    }
  }]) # definitions;
}

// An op whose result types follow from operands and attributes. Each defines `inferTypes`, which also holds the
// checks: construction and verification say the same thing, once.
class NN_InferredOp<string mnemonic, list<Trait> traits = [], string definitions = "", bit isExpandable = 0>
    : NN_Op<mnemonic, !listconcat([DeclareOpInterfaceMethods<InferTypeOpInterface>], traits), [{
  ::llvm::LogicalResult $cppClass::inferReturnTypes(
      ::mlir::MLIRContext *, ::std::optional<::mlir::Location> location, ::mlir::ValueRange operands,
      ::mlir::DictionaryAttr attributes, ::mlir::OpaqueProperties properties, ::mlir::RegionRange regions,
      ::llvm::SmallVectorImpl<::mlir::Type> &types) {
    auto emitError = [&] { return location ? ::mlir::emitError(*location) : ::mlir::InFlightDiagnostic(); };
    return inferTypes(Adaptor(operands, attributes, properties, regions), emitError, types);
  }
  ::llvm::LogicalResult $cppClass::verify() {
    ::llvm::SmallVector<::mlir::Type> types;
    if (failed(inferTypes(Adaptor(*this), [&] { return emitOpError(); }, types)))
      return ::mlir::failure();
    return checkResultTypes(*this, types);
  }
}] # definitions, isExpandable> {
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Appends the result types, or says through `emitError` why there are none.
    static ::llvm::LogicalResult inferTypes(Adaptor adaptor, EmitError emitError,
                                            ::llvm::SmallVectorImpl<::mlir::Type> &types);
  }];
}

#endif // PLUMB_DIALECT_NN_NNBASE
