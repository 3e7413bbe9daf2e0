//===- PlumbBase.td - The plumb dialect and its attributes ----------------===//

#ifndef PLUMB_DIALECT_PLUMB_PLUMBBASE
#define PLUMB_DIALECT_PLUMB_PLUMBBASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Plumb_Dialect : Dialect {
  let name = "plumb";
  let cppNamespace = "::plumb";
  let summary = "Where a computation runs, who owns what, and how it is laid out";
  let description = [{
    The body of a program is one flat block; what is known about an op is said by discardable attributes of this
    dialect, so that cutting stages is cutting a list:

    | attribute | on | says |
    |---|---|---|
    | `plumb.module` | any op of a program | the module path that the op belongs to, `"h.0.attn"` (`"h.0@1"` for a repeated call) |
    | `plumb.source` | the same | the Python line it was traced from, `"gpt2.py:45"` |
    | `plumb.stage` | the same, after `split-stages` | the pipeline stage, an `i64` |
    | `plumb.phase` | the same, after `build-backward` | when the op runs within a step, a `#plumb.phase` |
    | `plumb.layouts` | ops with tensor results, after `propagate-layouts` | one `#plumb.layout` per result |
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = "void registerAttributes();";
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class Plumb_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Plumb_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Plumb_AxisRefAttr : Plumb_Attr<"AxisRef", "axis"> {
  let summary = "A mesh axis, or a factor of one";
  let description = [{
    `"tp"` is the whole axis. `"tp":(2)4` is the factor of size 4 that lies inside a factor of size 2 of the same
    axis, in major-to-minor order of its coordinates.
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$preSize, "int64_t":$size);
  let builders = [AttrBuilderWithInferredContext<(ins "::mlir::StringAttr":$name), [{
    return $_get(name.getContext(), name, 1, 0);
  }]>];
  let extraClassDeclaration = [{
    /// Whether the reference names the axis itself and not a factor of it.
    bool isWhole() const { return getSize() == 0; }
  }];
  let hasCustomAssemblyFormat = 1;
}

def Plumb_DimShardingAttr : Plumb_Attr<"DimSharding", "dim"> {
  let summary = "How mesh axes cut one tensor dim: axes outermost first, within each of its blocks";
  let description = [{
    `blocks` is empty for a dim that is one block, a number of equal blocks, or the sizes of several that differ:
    `{"tp"} blocks 3`, `{"tp"} blocks [64, 32, 32]`.
  }];
  let parameters = (ins ArrayRefParameter<"::plumb::AxisRefAttr">:$axes, OptionalArrayRefParameter<"int64_t">:$blocks);
  let extraClassDeclaration = [{
    /// How many blocks axes cut one by one; 1 for the dim as a whole.
    int64_t countBlocks() const;
    bool hasUnequalBlocks() const { return getBlocks().size() > 1; }

    /// The blocks of the dim, of `size` elements in all.
    ::llvm::SmallVector<int64_t> getBlockSizes(int64_t size) const;

    /// The same blocks cut by other axes. A dim that no axes cut has none.
    DimShardingAttr withAxes(::llvm::ArrayRef<::plumb::AxisRefAttr> axes) const;
  }];
  let hasCustomAssemblyFormat = 1;
}

def Plumb_PartialAttr : Plumb_Attr<"Partial", "partial"> {
  let summary = "An axis whose ranks hold contributions still to be reduced";
  let parameters = (ins "::plumb::AxisRefAttr":$axis, "::mlir::StringAttr":$reduction);
  let hasCustomAssemblyFormat = 1;
}

def Plumb_LayoutAttr : Plumb_Attr<"Layout", "layout"> {
  let summary = "The layout of a tensor on a mesh";
  let description = [{
    Per tensor dim the mesh axes that shard it, outermost first, and the axes that hold partial values. An axis that
    is neither is replicated. The reserved axis `"microbatch"` is walked in time.

    ```mlir
    #plumb.layout<@mesh, [{"dp", "microbatch"}, {}, {"tp"} blocks 3], partial = {"cp" : sum}>
    ```
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$mesh, ArrayRefParameter<"::plumb::DimShardingAttr">:$dims,
                        ArrayRefParameter<"::plumb::PartialAttr">:$partial);
  let extraClassDeclaration = [{
    /// The layout that replicates a tensor of `rank` dims over the whole mesh.
    static LayoutAttr replicated(::mlir::FlatSymbolRefAttr mesh, int64_t rank);

    /// Whether some dim is sharded by `axis`, or by a factor of it.
    bool isShardedOver(::llvm::StringRef axis) const;
    bool isPartialOver(::llvm::StringRef axis) const;
    bool isReplicated() const;

    /// The same layout without partial axes, or with the given ones.
    LayoutAttr withPartial(::llvm::ArrayRef<::plumb::PartialAttr> partial) const;
  }];
  let hasCustomAssemblyFormat = 1;
}

def Plumb_Phase : I32EnumAttr<"Phase", "when an op runs within a step", [
    I32EnumAttrCase<"Prologue", 0, "prologue">,
    I32EnumAttrCase<"Begin", 1, "begin">,
    I32EnumAttrCase<"Forward", 2, "forward">,
    I32EnumAttrCase<"BackwardInput", 3, "backward_input">,
    I32EnumAttrCase<"BackwardWeight", 4, "backward_weight">,
    I32EnumAttrCase<"Reduce", 5, "reduce">,
    I32EnumAttrCase<"Update", 6, "update">]> {
  let cppNamespace = "::plumb";
  let genSpecializedAttr = 0;
}

def Plumb_PhaseAttr : EnumAttr<Plumb_Dialect, Plumb_Phase, "phase"> {
  let assemblyFormat = "`<` $value `>`";
}

#endif // PLUMB_DIALECT_PLUMB_PLUMBBASE
