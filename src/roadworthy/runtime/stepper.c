/* One step of a compiled policy as one call from Python: the caller's arrays in, new arrays out.
 * runtime/c_frame.py compiles it against the headers of this Python and of this NumPy. */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <stddef.h>

typedef void (*policy_run)(void *const *places, int rows);

typedef struct {
    PyObject *name;
    PyArrayObject *buffer;
} port;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *keep; /* whatever the addresses point to */
    policy_run run;
    void *const *places;
    int rows;
    int32_t *tick; /* none where the policy decides at every tick */
    int32_t decimation;
    Py_ssize_t inputs, outputs, memories;
    port *ports;    /* inputs, then outputs */
    char **moves;   /* for each memory: where the next step reads it, and where this one wrote it */
    size_t *lengths;
} stepper;

/* 1: the value is in its buffer; 0: it is not what the buffer holds, and nothing was raised. */
static int loaded(const port *to, PyObject *value)
{
    PyArrayObject *array = (PyArrayObject *)value, *buffer = to->buffer;
    const int axes = PyArray_NDIM(buffer);
    if (value == (PyObject *)buffer) {
        return 1;
    }
    if (Py_TYPE(value) != &PyArray_Type || PyArray_DESCR(array) != PyArray_DESCR(buffer)
        || PyArray_NDIM(array) != axes
        || memcmp(PyArray_DIMS(array), PyArray_DIMS(buffer), (size_t)axes * sizeof(npy_intp))) {
        return 0;
    }
    if (PyArray_IS_C_CONTIGUOUS(array)) {
        memmove(PyArray_DATA(buffer), PyArray_DATA(array), (size_t)PyArray_NBYTES(buffer));
        return 1;
    }
    return PyArray_CopyInto(buffer, array) == 0 ? 1 : -1;
}

/* A new array like a buffer, with what is in it: what PyArray_NewCopy gives, in half its time. */
static PyObject *copied(PyArrayObject *buffer)
{
    PyArray_Descr *kind = PyArray_DESCR(buffer);
    PyObject *copy;
    Py_INCREF(kind); /* which the new array takes */
    copy = PyArray_NewFromDescr(&PyArray_Type, kind, PyArray_NDIM(buffer), PyArray_DIMS(buffer),
        NULL, NULL, 0, NULL);
    if (copy != NULL) {
        memcpy(PyArray_DATA((PyArrayObject *)copy), PyArray_DATA(buffer),
            (size_t)PyArray_NBYTES(buffer));
    }
    return copy;
}

/* From a dict of inputs, or from what is in the buffers; None where the inputs do not fit there. */
static PyObject *step(PyObject *self, PyObject *const *arguments, size_t count, PyObject *names)
{
    stepper *own = (stepper *)self;
    PyObject *given, *results;
    Py_ssize_t i;
    if (PyVectorcall_NARGS(count) > 1 || names != NULL) {
        PyErr_SetString(PyExc_TypeError, "a step takes one dict, or nothing");
        return NULL;
    }
    if (PyVectorcall_NARGS(count) == 1) {
        given = arguments[0];
        if (!PyDict_CheckExact(given) || PyDict_GET_SIZE(given) != own->inputs) {
            Py_RETURN_NONE;
        }
        for (i = 0; i < own->inputs; i++) {
            PyObject *value = PyDict_GetItemWithError(given, own->ports[i].name);
            int fits = value == NULL ? (PyErr_Occurred() ? -1 : 0) : loaded(own->ports + i, value);
            if (fits < 0) {
                return NULL;
            }
            if (!fits) {
                Py_RETURN_NONE;
            }
        }
    }
    Py_BEGIN_ALLOW_THREADS
    own->run(own->places, own->rows);
    for (i = 0; i < own->memories; i++) {
        memcpy(own->moves[2 * i], own->moves[2 * i + 1], own->lengths[i]);
    }
    Py_END_ALLOW_THREADS
    if (own->tick != NULL) {
        *own->tick = (*own->tick + 1) % own->decimation;
    }
    results = PyDict_New();
    for (i = own->inputs; results != NULL && i < own->inputs + own->outputs; i++) {
        PyObject *copy = copied(own->ports[i].buffer);
        if (copy == NULL || PyDict_SetItem(results, own->ports[i].name, copy) < 0) {
            Py_CLEAR(results);
        }
        Py_XDECREF(copy);
    }
    return results;
}

static void freed(PyObject *self)
{
    stepper *own = (stepper *)self;
    PyMem_Free(own->ports);
    PyMem_Free(own->moves);
    PyMem_Free(own->lengths);
    Py_XDECREF(own->keep);
    Py_TYPE(self)->tp_free(self);
}

static PyTypeObject stepper_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "roadworthy.runtime.stepper.Stepper",
    .tp_basicsize = sizeof(stepper),
    .tp_dealloc = freed,
    .tp_vectorcall_offset = offsetof(stepper, call),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "One step of a compiled policy.",
};

static char *address(PyObject *array)
{
    return (char *)PyArray_DATA((PyArrayObject *)array);
}

/* stepper(run, places, rows, ports, inputs, moves, tick, decimation, kept): see c_frame.py. */
static PyObject *made(PyObject *module, PyObject *arguments)
{
    unsigned long long run, places;
    PyObject *ports, *moves, *tick, *kept;
    Py_ssize_t inputs, i;
    int rows, decimation;
    stepper *own;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "KKiO!nO!OiO", &run, &places, &rows, &PyTuple_Type, &ports,
            &inputs, &PyTuple_Type, &moves, &tick, &decimation, &kept)) {
        return NULL;
    }
    own = PyObject_New(stepper, &stepper_type);
    if (own == NULL) {
        return NULL;
    }
    own->call = step;
    own->run = (policy_run)(uintptr_t)run;
    own->places = (void *const *)(uintptr_t)places;
    own->rows = rows;
    own->tick = tick == Py_None ? NULL : (int32_t *)(void *)address(tick);
    own->decimation = decimation;
    own->inputs = inputs;
    own->outputs = PyTuple_GET_SIZE(ports) - inputs;
    own->memories = PyTuple_GET_SIZE(moves);
    own->keep = Py_NewRef(arguments);
    own->ports = PyMem_Calloc((size_t)PyTuple_GET_SIZE(ports) + 1, sizeof(port));
    own->moves = PyMem_Calloc((size_t)own->memories * 2 + 1, sizeof(char *));
    own->lengths = PyMem_Calloc((size_t)own->memories + 1, sizeof(size_t));
    if (own->ports == NULL || own->moves == NULL || own->lengths == NULL) {
        Py_DECREF(own);
        return PyErr_NoMemory();
    }
    for (i = 0; i < PyTuple_GET_SIZE(ports); i++) {
        PyObject *pair = PyTuple_GET_ITEM(ports, i);
        own->ports[i].name = PyTuple_GET_ITEM(pair, 0);
        own->ports[i].buffer = (PyArrayObject *)PyTuple_GET_ITEM(pair, 1);
    }
    for (i = 0; i < own->memories; i++) {
        PyObject *pair = PyTuple_GET_ITEM(moves, i);
        own->moves[2 * i] = address(PyTuple_GET_ITEM(pair, 0));
        own->moves[2 * i + 1] = address(PyTuple_GET_ITEM(pair, 1));
        own->lengths[i] = (size_t)PyArray_NBYTES((PyArrayObject *)PyTuple_GET_ITEM(pair, 0));
    }
    return (PyObject *)own;
}

static PyMethodDef functions[] = {
    {"stepper", made, METH_VARARGS, "A policy's step over buffers that never move."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "stepper", NULL, -1, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_stepper(void)
{
    import_array();
    if (PyType_Ready(&stepper_type) < 0) {
        return NULL;
    }
    return PyModule_Create(&definition);
}
