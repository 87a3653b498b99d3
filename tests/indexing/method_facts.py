"""Expressions about indexed elements, with what MindSpore 2.10 gives on a CPU (None: no kernel).

`x` is [[0, 1, 2], [3, 4, 5]] in float32, `i` [[0, 1, 1], [1, 0, 0]] in int64, `im` a 4 x 4 image.
A result is (type, shape, elements), or a list of those.
"""

from __future__ import annotations

from typing import Any

FACTS: dict[str, Any] = {
    "x.take(Tensor([0,5,3]))": ("Float32", [3], [0, 5, 3]),
    "x.take(Tensor([0,1]),1)": ("Float32", [2, 2], [0, 1, 3, 4]),
    "x.take(Tensor([0,9]),1)": ("Float32", [2, 2], [0, 2, 3, 5]),
    "x.take(Tensor([0,9]),1,'wrap')": ("Float32", [2, 2], [0, 0, 3, 3]),
    "x.take(Tensor([-1,0]),0)": ("Float32", [2, 3], [3, 4, 5, 0, 1, 2]),
    "x.take(Tensor([7,9,-1]),mode='clip')": ("Float32", [3], [5, 5, 5]),
    "x.take(1)": None,
    "x.take([0,1],0)": None,
    "ops.take(x,Tensor([[0,5],[1,2]]))": None,
    "ops.gather(x,Tensor([1,0]),0)": ("Float32", [2, 3], [3, 4, 5, 0, 1, 2]),
    "ops.gather(x,Tensor([1,0]),1)": ("Float32", [2, 2], [1, 0, 4, 3]),
    "x.gather(Tensor([1,0]),0)": ("Float32", [2, 3], [3, 4, 5, 0, 1, 2]),
    "x.gather(1,Tensor([[0,1],[1,2]]))": ("Float32", [2, 2], [0, 1, 4, 5]),
    "x.gather_elements(1,Tensor([[0,1],[1,2]]))": ("Float32", [2, 2], [0, 1, 4, 5]),
    "ops.gather_elements(x,0,Tensor([[0,1,1]]))": ("Float32", [1, 3], [0, 4, 5]),
    "ops.gather_d(x,1,Tensor([[0],[1]]))": ("Float32", [2, 1], [0, 4]),
    "ops.gather_nd(x,Tensor([[0,1],[1,2]]))": ("Float32", [2], [1, 5]),
    "x.gather_nd(Tensor([[0],[1]]))": ("Float32", [2, 3], [0, 1, 2, 3, 4, 5]),
    "x.index_select(0,Tensor([1,1]))": ("Float32", [2, 3], [3, 4, 5, 3, 4, 5]),
    "x.index_select(axis=1,index=Tensor([2,0]))": ("Float32", [2, 2], [2, 0, 5, 3]),
    "ops.index_select(x,1,Tensor([2,0]))": ("Float32", [2, 2], [2, 0, 5, 3]),
    "x.index_add(0,Tensor([0,1]),Tensor([[1.,1.,1.],[2.,2.,2.]]))": None,
    "x.index_add(0,Tensor([0,0]),Tensor([[1.,1.,1.],[2.,2.,2.]]))": None,
    "x.index_add(1,Tensor([0]),Tensor([[1.],[2.]]),alpha=2)": None,
    "x.index_add(dim=0,index=Tensor([1]),source=Tensor([[1.,1.,1.]]),alpha=2)": None,
    "x.index_add(Tensor([0,1]),Tensor([[1.,1.,1.],[2.,2.,2.]]),0)": None,
    "x.copy().index_add_(0,Tensor([0,1]),Tensor([[1.,1.,1.],[2.,2.,2.]]),alpha=2)": None,
    "ops.index_add(Parameter(x),Tensor([0,1],ms.int32),Tensor([[1.,1.,1.],[2.,2.,2.]]),0)":
        ("Float32", [2, 3], [1, 2, 3, 5, 6, 7]),
    "x.index_fill(0,Tensor([0]),7.)": None,
    "x.index_fill(1,Tensor([0,2]),7)": None,
    "x.index_fill(axis=1,index=0,value=Tensor(3.))": None,
    "ops.index_fill(x,1,Tensor([0,2]),7.)": None,
    "x.copy().index_fill_(0,Tensor([0]),7.)": None,
    "x.copy().index_copy_(0,Tensor([1,0]),x*10)": None,
    "x.index_put((Tensor([0,1]),Tensor([1,1])),Tensor([9.,8.]))":
        ("Float32", [2, 3], [0, 9, 2, 3, 8, 5]),
    "x.index_put((Tensor([0,0]),Tensor([1,1])),Tensor([9.,8.]),True)":
        ("Float32", [2, 3], [0, 18, 2, 3, 4, 5]),
    "x.index_put([Tensor([0])],Tensor([9.]))": ("Float32", [2, 3], [9, 9, 9, 3, 4, 5]),
    "x.copy().index_put_((Tensor([0,1]),Tensor([1,1])),Tensor([9.,8.]))": None,
    "x.masked_fill(x>2,9.)": ("Float32", [2, 3], [0, 1, 2, 9, 9, 9]),
    "x.masked_fill(x>2,Tensor(9.))": ("Float32", [2, 3], [0, 1, 2, 9, 9, 9]),
    "x.copy().masked_fill_(x>2,9.)": None,
    "ops.masked_fill(x,Tensor([True,False,True]),5)": None,
    "ops.masked_fill(i,i>2,5)": ("Int64", [2, 3], [0, 1, 1, 1, 0, 0]),
    "ops.masked_fill(i,i>2,5.5)": None,
    "x.masked_scatter(x>2,Tensor([10.,20.,30.,40.]))": ("Float32", [2, 3], [0, 1, 2, 10, 20, 30]),
    "x.masked_scatter(Tensor([True,False,True]),Tensor([10.,20.,30.,40.]))":
        ("Float32", [2, 3], [10, 1, 20, 30, 4, 40]),
    "x.copy().masked_scatter_(x>2,Tensor([10.,20.,30.,40.]))": None,
    "x.masked_select(x>2)": ("Float32", [3], [3, 4, 5]),
    "ops.masked_select(x,Tensor([True,False,True]))": ("Float32", [4], [0, 2, 3, 5]),
    "ops.select_scatter(x,Tensor([7.,8.,9.]),0,1)": ("Float32", [2, 3], [0, 1, 2, 7, 8, 9]),
    "ops.select_scatter(x,Tensor([7.,8.]),1,-1)": ("Float32", [2, 3], [0, 1, 7, 3, 4, 8]),
    "x.select_scatter(Tensor([7.,8.,9.]),0,1)": ("Float32", [2, 3], [0, 1, 2, 7, 8, 9]),
    "ops.slice_scatter(ops.zeros((4,6)),ops.ones((4,3)),1,0,5,2)":
        ("Float32", [4, 6], [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1,
        0]),
    "ops.slice_scatter(x,ops.ones((1,3)),0,1,2)": ("Float32", [2, 3], [0, 1, 2, 1, 1, 1]),
    "ops.slice_scatter(x,ops.ones((2,3)))": ("Float32", [2, 3], [1, 1, 1, 1, 1, 1]),
    "x.slice_scatter(ops.ones((2,2)),1,1)": ("Float32", [2, 3], [0, 1, 1, 3, 1, 1]),
    "x.slice_scatter(ops.ones((2,1)),1,-1)": ("Float32", [2, 3], [0, 1, 1, 3, 4, 1]),
    "ops.diagonal_scatter(x,Tensor([8.,9.]))": ("Float32", [2, 3], [8, 1, 2, 3, 9, 5]),
    "ops.diagonal_scatter(x,Tensor([8.,9.]),1)": ("Float32", [2, 3], [0, 8, 2, 3, 4, 9]),
    "ops.diagonal_scatter(x,Tensor([8.]),-1)": ("Float32", [2, 3], [0, 1, 2, 8, 4, 5]),
    "ops.diagonal_scatter(ops.zeros((2,3,4)),ops.ones((3,2)),0,0,2)":
        ("Float32", [2, 3, 4], [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1,
        0, 0]),
    "ops.index_add(ops.zeros((20,3)),Tensor([2,2]),ops.ones((20,2)),1).sum(0)":
        ("Float32", [3], [0, 0, 40]),
    "x.diagonal_scatter(Tensor([8.,9.]),1)": ("Float32", [2, 3], [0, 8, 2, 3, 4, 9]),
    "ops.argwhere(x>2)": ("Int64", [3, 2], [1, 0, 1, 1, 1, 2]),
    "x.argwhere()": ("Int64", [5, 2], [0, 1, 0, 2, 1, 0, 1, 1, 1, 2]),
    "ops.argwhere(Tensor([0,1,2]))": ("Int64", [2, 1], [1, 2]),
    "ops.nonzero(x)": ("Int64", [5, 2], [0, 1, 0, 2, 1, 0, 1, 1, 1, 2]),
    "ops.nonzero(x,as_tuple=True)": None,
    "x.nonzero()": ("Int64", [5, 2], [0, 1, 0, 2, 1, 0, 1, 1, 1, 2]),
    "x.nonzero(as_tuple=True)": None,
    "x.narrow(1,1,2)": ("Float32", [2, 2], [1, 2, 4, 5]),
    "ops.narrow(x,0,1,1)": ("Float32", [1, 3], [3, 4, 5]),
    "x.narrow(1,-2,2)": None,
    "x.select(0,1)": ("Float32", [3], [3, 4, 5]),
    "x.select(1,-1)": ("Float32", [2], [2, 5]),
    "x.scatter(1,Tensor([[0,1],[1,2]]),Tensor([[9.,8.],[7.,6.]]))":
        ("Float32", [2, 3], [9, 8, 2, 3, 7, 6]),
    "x.scatter(axis=1,index=Tensor([[0],[1]]),src=5.)": ("Float32", [2, 3], [5, 1, 2, 3, 5, 5]),
    "x.scatter(0,Tensor([[1,0,1]]),Tensor([[9.,8.,7.]]))": ("Float32", [2, 3], [0, 8, 2, 9, 4, 7]),
    "ops.scatter(x,1,Tensor([[0,1],[1,2]]),Tensor([[9.,8.],[7.,6.]]))":
        ("Float32", [2, 3], [9, 8, 2, 3, 7, 6]),
    "x.copy().scatter_(1,Tensor([[0],[1]]),5.)": None,
    "x.copy().scatter_(1,Tensor([[0],[1]]),Tensor([[5.],[6.]]),reduce='add')": None,
    "x.scatter_add(1,Tensor([[0,0],[1,2]]),Tensor([[9.,8.],[7.,6.]]))": None,
    "x.scatter_add(Tensor([[0,0],[1,2]]),Tensor([9.,8.]))":
        ("Float32", [2, 3], [9, 1, 2, 3, 4, 13]),
    "x.scatter_sub(Tensor([[0,0],[1,2]]),Tensor([9.,8.]))":
        ("Float32", [2, 3], [-9, 1, 2, 3, 4, -3]),
    "x.scatter_mul(Tensor([[0,0],[1,2]]),Tensor([9.,8.]))":
        ("Float32", [2, 3], [0, 1, 2, 3, 4, 40]),
    "x.scatter_div(Tensor([[0,0],[1,2]]),Tensor([9.,8.]))":
        ("Float32", [2, 3], [0, 1, 2, 3, 4, 0.625]),
    "x.scatter_max(Tensor([[0,0],[1,2]]),Tensor([9.,1.]))": ("Float32", [2, 3], [9, 1, 2, 3, 4, 5]),
    "x.scatter_min(Tensor([[0,0],[1,2]]),Tensor([9.,1.]))": ("Float32", [2, 3], [0, 1, 2, 3, 4, 1]),
    "ops.tensor_scatter_update(x,Tensor([[0],[0]]),Tensor([[1.,2.,3.],[4.,5.,6.]]))":
        ("Float32", [2, 3], [4, 5, 6, 3, 4, 5]),
    "ops.tensor_scatter_add(x,Tensor([[0],[0]]),Tensor([[1.,2.,3.],[4.,5.,6.]]))":
        ("Float32", [2, 3], [5, 8, 11, 3, 4, 5]),
    "ops.tensor_scatter_elements(x,Tensor([[0,1],[1,2]]),Tensor([[9.,8.],[7.,6.]]),1)":
        ("Float32", [2, 3], [9, 8, 2, 3, 7, 6]),
    "ops.tensor_scatter_elements(x,Tensor([[0,1],[1,2]]),Tensor([[9.,8.],[7.,6.]]),1,'add')":
        ("Float32", [2, 3], [9, 9, 2, 3, 11, 11]),
    "ops.tensor_scatter_elements(x,Tensor([[0,1],[1,2]]),Tensor([[9.,8.],[7.,6.]]),1,'mul')": None,
    "ops.scatter_nd(Tensor([[0],[2]]),Tensor([1.,2.]),(4,))": ("Float32", [4], [1, 0, 2, 0]),
    "ops.scatter_nd(Tensor([[0],[0]]),Tensor([1.,2.]),(4,))": ("Float32", [4], [3, 0, 0, 0]),
    "ops.scatter_nd_update(Parameter(x),Tensor([[0,0],[1,2]]),Tensor([9.,8.]))":
        ("Float32", [2, 3], [9, 1, 2, 3, 4, 8]),
    "ops.scatter_nd_add(Parameter(x),Tensor([[0,0],[1,2]]),Tensor([9.,8.]))":
        ("Float32", [2, 3], [9, 1, 2, 3, 4, 13]),
    "ops.scatter_nd_sub(Parameter(x),Tensor([[0,0],[1,2]]),Tensor([9.,8.]))":
        ("Float32", [2, 3], [-9, 1, 2, 3, 4, -3]),
    "ops.scatter_nd_mul(Parameter(x),Tensor([[0,0],[1,2]]),Tensor([9.,8.]))":
        ("Float32", [2, 3], [0, 1, 2, 3, 4, 40]),
    "ops.scatter_nd_div(Parameter(x),Tensor([[0,1],[1,2]]),Tensor([9.,8.]))":
        ("Float32", [2, 3], [0, 0.1111111119389534, 2, 3, 4, 0.625]),
    "ops.scatter_nd_max(Parameter(x),Tensor([[0,0],[1,2]]),Tensor([9.,1.]))":
        ("Float32", [2, 3], [9, 1, 2, 3, 4, 5]),
    "ops.scatter_nd_min(Parameter(x),Tensor([[0,0],[1,2]]),Tensor([9.,1.]))":
        ("Float32", [2, 3], [0, 1, 2, 3, 4, 1]),
    "ops.scatter_update(Parameter(x),Tensor([1]),Tensor([[9.,8.,7.]]))":
        ("Float32", [2, 3], [0, 1, 2, 9, 8, 7]),
    "ops.scatter_add(Parameter(x),Tensor([[1,1]]),Tensor([[[9.,8.,7.],[1.,1.,1.]]]))":
        ("Float32", [2, 3], [0, 1, 2, 13, 13, 13]),
    "ops.inplace_add(x,Tensor([[1.,1.,1.]]),0)": ("Float32", [2, 3], [1, 2, 3, 3, 4, 5]),
    "ops.inplace_add(x,Tensor([[1.,1.,1.],[2.,2.,2.]]),(1,0))":
        ("Float32", [2, 3], [2, 3, 4, 4, 5, 6]),
    "ops.inplace_sub(x,Tensor([[1.,1.,1.]]),(1,))": ("Float32", [2, 3], [0, 1, 2, 2, 3, 4]),
    "ops.inplace_update(x,Tensor([[1.,1.,1.]]),1)": ("Float32", [2, 3], [0, 1, 2, 1, 1, 1]),
    "ops.inplace_index_add(Parameter(x),Tensor([0,1],ms.int32),Tensor([[1.,1.,1.],[2.,2.,2.]]),0)":
        ("Float32", [2, 3], [1, 2, 3, 5, 6, 7]),
    "ops.inplace_index_add(Parameter(x),Tensor([0,0],ms.int32),Tensor([[1.,1.],[2.,2.]]),1)":
        ("Float32", [2, 3], [2, 1, 2, 7, 4, 5]),
    "ops.reverse_sequence(Tensor([[1.,2.,3.],[4.,5.,6.],[7.,8.,9.]]),Tensor([1,2,3]),1)":
        ("Float32", [3, 3], [1, 2, 3, 5, 4, 6, 9, 8, 7]),
    "ops.reverse_sequence(Tensor([[1.,2.,3.],[4.,5.,6.],[7.,8.,9.]]),Tensor([1,2,3]),0,1)":
        ("Float32", [3, 3], [1, 5, 9, 4, 2, 6, 7, 8, 3]),
    "ops.reverse_sequence(Tensor([[1.,2.,3.,4.],[5.,6.,7.,8.]]),Tensor([3,0]),seq_dim=1)":
        ("Float32", [2, 4], [3, 2, 1, 4, 5, 6, 7, 8]),
    "x.reverse_sequence(Tensor([2,3]),1)": ("Float32", [2, 3], [1, 0, 2, 5, 4, 3]),
    "x.fill_diagonal(5.)": ("Float32", [2, 3], [5, 1, 2, 3, 5, 5]),
    "x.copy().fill_diagonal_(5.)": None,
    "x.copy().put_(Tensor([0,5]),Tensor([9.,8.]))": None,
    "x.copy().put_(Tensor([0,0]),Tensor([9.,8.]),True)": None,
    "i.choose([Tensor([10,20,30]),Tensor([11,21,31])])":
        ("Int64", [2, 3], [10, 21, 31, 11, 20, 30]),
    "x.itemset(0,5.)": ("Float32", [2, 3], [5, 1, 2, 3, 4, 5]),
    "x.copy().itemset((0,1),7.)": ("Float32", [2, 3], [0, 7, 2, 3, 4, 5]),
    "x.searchsorted(Tensor([1.,2.]))": None,
    "im.unfold(2)":
        ("Float32", [1, 4, 9], [0, 1, 2, 4, 5, 6, 8, 9, 10, 1, 2, 3, 5, 6, 7, 9, 10, 11, 4, 5, 6,
        8, 9, 10, 12, 13, 14, 5, 6, 7, 9, 10, 11, 13, 14, 15]),
    "ops.unfold(im,2)":
        ("Float32", [1, 4, 9], [0, 1, 2, 4, 5, 6, 8, 9, 10, 1, 2, 3, 5, 6, 7, 9, 10, 11, 4, 5, 6,
        8, 9, 10, 12, 13, 14, 5, 6, 7, 9, 10, 11, 13, 14, 15]),
    "ops.population_count(Tensor([1,3,7],ms.int16))": ("UInt8", [3], [1, 2, 3]),
    "x.diagonal()": ("Float32", [2], [0, 4]),
    "x.diagonal(1)": ("Float32", [2], [1, 5]),
    "x.tril()": ("Float32", [2, 3], [0, 0, 0, 3, 4, 0]),
    "x.triu(1)": ("Float32", [2, 3], [0, 1, 2, 0, 0, 5]),
    "x.expand_as(Tensor(np.zeros((4,2,3))))":
        ("Float32", [4, 2, 3], [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3,
        4, 5]),
    "x.bool()": ("Bool", [2, 3], [False, True, True, True, True, True]),
    "ops.MaskedFill()(x,x>2,Tensor(1.))": ("Float32", [2, 3], [0, 1, 2, 1, 1, 1]),
    "ops.IndexAdd(axis=0)(Parameter(x),Tensor([0],ms.int32),Tensor([[1.,1.,1.]]))":
        ("Float32", [2, 3], [1, 2, 3, 3, 4, 5]),
    "ops.IndexFill()(x,Tensor(0,ms.int32),Tensor([1],ms.int32),Tensor(5.))":
        ("Float32", [2, 3], [0, 1, 2, 5, 5, 5]),
    "ops.IndexPut()(x,Tensor([5.]),[Tensor([1])])": ("Float32", [2, 3], [0, 1, 2, 5, 5, 5]),
    "ops.InplaceAdd(0)(x,Tensor([[1.,1.,1.]]))": ("Float32", [2, 3], [1, 2, 3, 3, 4, 5]),
    "ops.InplaceSub(0)(x,Tensor([[1.,1.,1.]]))": ("Float32", [2, 3], [-1, 0, 1, 3, 4, 5]),
    "ops.InplaceUpdate(1)(x,Tensor([[1.,1.,1.]]))": ("Float32", [2, 3], [0, 1, 2, 1, 1, 1]),
    "ops.InplaceIndexAdd(0)(Parameter(x),Tensor([0],ms.int32),Tensor([[1.,1.,1.]]))":
        ("Float32", [2, 3], [1, 2, 3, 3, 4, 5]),
    "ops.ScatterNdSub()(Parameter(x),Tensor([[0,0]]),Tensor([1.]))":
        ("Float32", [2, 3], [-1, 1, 2, 3, 4, 5]),
    "ops.ScatterNdMul()(Parameter(x),Tensor([[0,1]]),Tensor([5.]))":
        ("Float32", [2, 3], [0, 5, 2, 3, 4, 5]),
    "ops.ScatterNdDiv()(Parameter(x),Tensor([[0,1]]),Tensor([5.]))":
        ("Float32", [2, 3], [0, 0.20000000298023224, 2, 3, 4, 5]),
    "ops.ScatterNdMax()(Parameter(x),Tensor([[0,1]]),Tensor([5.]))":
        ("Float32", [2, 3], [0, 5, 2, 3, 4, 5]),
    "ops.ScatterNdMin()(Parameter(x),Tensor([[0,1]]),Tensor([-5.]))":
        ("Float32", [2, 3], [0, -5, 2, 3, 4, 5]),
    "ops.ScatterAddWithAxis(1)(x,Tensor([[0],[1]]),Tensor([[1.],[2.]]))":
        ("Float32", [2, 3], [1, 1, 2, 3, 6, 5]),
    "ops.MaskedScatter()(x,x>2,Tensor([1.,2.,3.]))": ("Float32", [2, 3], [0, 1, 2, 1, 2, 3]),
    "ops.ReverseSequence(1)(x,Tensor([2,3]))": ("Float32", [2, 3], [1, 0, 2, 5, 4, 3]),
    "ops.FillDiagonal(5.)(x)": ("Float32", [2, 3], [5, 1, 2, 3, 5, 5]),
    "ops.GatherD()(x,1,Tensor([[0],[1]]))": ("Float32", [2, 1], [0, 4]),
    "ops.Gather()(x,Tensor([1]),0)": ("Float32", [1, 3], [3, 4, 5]),
    "ops.GatherNd()(x,Tensor([[1,1]]))": ("Float32", [1], [4]),
    "ops.ScatterNd()(Tensor([[0],[2]]),Tensor([1.,2.]),(4,))": ("Float32", [4], [1, 0, 2, 0]),
    "ops.TensorScatterUpdate()(x,Tensor([[0,0]]),Tensor([9.]))":
        ("Float32", [2, 3], [9, 1, 2, 3, 4, 5]),
    "ops.TensorScatterElements(1)(x,Tensor([[0],[1]]),Tensor([[5.],[6.]]))":
        ("Float32", [2, 3], [5, 1, 2, 3, 6, 5]),
    "ops.MaskedSelect()(x,x>2)": ("Float32", [3], [3, 4, 5]),
    "ops.NonZero()(x)": ("Int64", [5, 2], [0, 1, 0, 2, 1, 0, 1, 1, 1, 2]),
    "ops.Select()(x>2,x,-x)": ("Float32", [2, 3], [0, -1, -2, 3, 4, 5]),
    "ops.StridedSlice()(x,(0,0),(2,3),(1,2))": ("Float32", [2, 2], [0, 2, 3, 5]),
    "ops.StridedSlice(2,0,0,0,1)(x,(0,0),(1,3),(1,1))": ("Float32", [3], [0, 1, 2]),
    "ops.strided_slice(x,(0,1),(2,3),(1,1))": ("Float32", [2, 2], [1, 2, 4, 5]),
    "ops.strided_slice(x,(1,2),(-3,-4),(-1,-1))": ("Float32", [2, 3], [5, 4, 3, 2, 1, 0]),
    "ops.slice(x,(0,1),(2,2))": ("Float32", [2, 2], [1, 2, 4, 5]),
    "ops.tensor_slice(x,(0,1),(2,2))": ("Float32", [2, 2], [1, 2, 4, 5]),
    "ops.Slice()(x,(0,1),(2,2))": ("Float32", [2, 2], [1, 2, 4, 5]),
}

ERRORS: dict[str, tuple[type[Exception], str]] = {
    "x.take(Tensor([0,9]),0,'raise')": (
        IndexError, "indices must be in [-2, 2), but got 9"),
    "ops.gather(x,1,0)": (TypeError, "For 'gather', 'input_indices' must be a Tensor, but got int"),
    "x.select_scatter(0,1,Tensor([7.,8.,9.]))": (
        TypeError, "For 'select_scatter', 'src' must be a Tensor, but got int"),
    "ops.slice_scatter(x,ops.ones((1,3)))": (
        ValueError, "For 'slice_scatter', 'src' must have the shape"),
    "ops.diagonal_scatter(x,Tensor([8.,9.,1.]))": (
        ValueError, "For 'diagonal_scatter', 'src' must have the shape"),
    "x.narrow(1,2,2)": (ValueError, "For 'narrow', 2 positions from 2 leave axis 1 of length 3"),
    "x.tensor_scatter_update(Tensor([[0,0],[1,2]]),Tensor([9.,8.]))": (
        AttributeError, "'Tensor' object has no attribute 'tensor_scatter_update'"),
    "x.item()": (
        ValueError, "The tensor should have only one element, but got 6, more than one element"),
    "x.item(3)": (TypeError, "Tensor.item() takes 1 positional argument but 2 were given"),
    "Tensor(3).item(0)": (TypeError, "Tensor.item() takes 1 positional argument but 2 were given"),
    "x.unfold(0,2,1)": (
        ValueError, "For 'unfold', 'input' must have 4 axes, but has shape (2, 3)"),
    "x.index_select(0,Tensor([5]))": (
        IndexError, "For 'gather', indices must be in [-2, 2), but got 5"),
    "x.gather_elements(1,Tensor([[0,5],[1,2]]))": (
        IndexError, "For 'gather_elements', indices must be in [-3, 3), but got 5"),
    "ops.gather_nd(x,Tensor([[0,7]]))": (
        IndexError, "For 'gather_nd', indices along axis 1 must be in [-3, 3), but got 7"),
    "ops.gather(x,Tensor([9]),0)": (
        IndexError, "For 'gather', indices must be in [-2, 2), but got 9"),
    "ops.tensor_scatter_update(x,Tensor([[5]]),Tensor([[1.,2.,3.]]))": (
        IndexError, "For 'tensor_scatter_update', indices along axis 0 must be in [-2, 2), but"),
    "x.scatter(1,Tensor([[5]]),Tensor([[1.]]))": (
        IndexError, "For 'scatter', indices must be in [-3, 3), but got 5"),
    "x.index_fill(0,Tensor([5]),7.)": (
        IndexError, "For 'index_fill', indices must be in [-2, 2), but got 5"),
    "x.index_select(3,Tensor([0]))": (
        ValueError, "For 'index_select', the 'axis' must be in [-2, 2), but got 3"),
    "x.gather_elements(1,Tensor([0,1]))": (
        ValueError, "For 'gather_elements', 'index' must have 2 axes, not 1"),
    "x.masked_fill(x,1.)": (
        TypeError, "For 'masked_fill', 'mask' must be a bool tensor, but got Float32"),
    "x.masked_select(x)": (
        TypeError, "For 'masked_select', 'mask' must be a bool tensor, but got Float32"),
    "x.index_add(0,Tensor([0]),Tensor([[1.,1.]]))": (
        ValueError, "scatter along axis 0 of float32[2,3] with indices of shape"),
    "x.narrow(1,2,5)": (ValueError, "For 'narrow', 5 positions from 2 leave axis 1 of length 3"),
    "x.scatter(1,Tensor([[0.]]),Tensor([[1.]]))": (
        TypeError, "For 'scatter', 'indices' must be a tensor of ints, but got Float32"),
    "x.gather(Tensor([0.]),0)": (
        TypeError, "For 'gather', 'input_indices' must be a tensor of ints, but got Float32"),
    "x.tensor_scatter_update([[0]],Tensor([[1.,2.,3.]]))": (
        AttributeError, "'Tensor' object has no attribute 'tensor_scatter_update'"),
}
